#include "page/document.h"

#include "page/markup.h"
#include "page/style.h"

namespace varve::page {

std::string html_document(const Document& document) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(document.title) + "</title>\n<style>" + kStyle + document.style +
         "</style>\n</head>\n<body>\n<main>\n" + document.body + "</main>\n</body>\n</html>\n";
}

std::string section(const std::string& title, const std::string& body) {
  return "<section>\n<h2>" + escaped(title) + "</h2>\n" + body + "</section>\n";
}

std::string tile(const std::string& value, const std::string& what) {
  return "<li><b>" + escaped(value) + "</b><span>" + escaped(what) + "</span></li>\n";
}

}  // namespace varve::page
