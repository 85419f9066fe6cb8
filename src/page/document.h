// A page that stands alone: no resource from elsewhere.
#pragma once

#include <string>

namespace varve::page {

struct Document {
  std::string title;       // text
  std::string style = "";  // CSS after the house's own
  std::string body;        // HTML
};
std::string html_document(const Document& document);

std::string section(const std::string& title, const std::string& body);  // title: text, body: HTML
std::string tile(const std::string& value, const std::string& what);     // a list item of class "tiles"

}  // namespace varve::page
