#include "source.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>

namespace varve::emulator {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Comments become blanks, so that nothing below mistakes them for code; lines stay where they are.
std::string without_comments(std::string text) {
  auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < std::min(to, text.size()); ++i)
      if (text[i] != '\n') text[i] = ' ';
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' || (text[i] == '\'' && !(i > 0 && in_word(text[i - 1])))) {
      char quote = text[i];
      for (++i; i < text.size() && text[i] != quote; ++i)
        if (text[i] == '\\') ++i;
    } else if (text.compare(i, 2, "//") == 0) {
      blank(i, text.find('\n', i));
    } else if (text.compare(i, 2, "/*") == 0) {
      std::size_t end = text.find("*/", i + 2);
      blank(i, end == std::string::npos ? end : end + 2);
    }
  }
  return text;
}

std::size_t find_word(const std::string& text, const std::string& word, std::size_t from) {
  for (std::size_t at = text.find(word, from); at != std::string::npos; at = text.find(word, at + 1)) {
    bool begins = at == 0 || !in_word(text[at - 1]);
    bool ends = at + word.size() >= text.size() || !in_word(text[at + word.size()]);
    if (begins && ends) return at;
  }
  return std::string::npos;
}

std::size_t skip_blanks(const std::string& text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

std::size_t skip_parentheses(const std::string& text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += text[at] == '(';
    depth -= text[at] == ')';
    if (depth == 0) return at + 1;
  }
  return at;
}

bool in_directive(const std::string& text, std::size_t at) {
  std::size_t line = text.rfind('\n', at);
  line = line == std::string::npos ? 0 : line + 1;
  return text[skip_blanks(text, line)] == '#';
}

bool after_template(const std::string& text, std::size_t at) {
  std::size_t end = text.find_last_of(";}", at);
  return find_word(text.substr(end == std::string::npos ? 0 : end, at - (end == std::string::npos ? 0 : end)),
                   "template", 0) != std::string::npos;
}

// "__global__" and the macros that stand for it.
std::vector<std::string> kernel_markers(const std::string& text) {
  std::vector<std::string> markers = {"__global__"};
  for (std::size_t at = find_word(text, "__global__", 0); at != std::string::npos;
       at = find_word(text, "__global__", at + 1)) {
    if (!in_directive(text, at)) continue;
    std::istringstream line(text.substr(text.rfind("define", at) + 6, at));
    markers.emplace_back();
    line >> markers.back();
  }
  return markers;
}

// The name in `__global__ __launch_bounds__(256) void name(`; empty when there is none.
std::string kernel_name(const std::string& text, std::size_t at) {
  std::string word;
  for (;;) {
    at = skip_blanks(text, at);
    std::size_t end = at;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end == at) {
      bool names_a_kernel = at < text.size() && text[at] == '(' && word != "void";
      return names_a_kernel ? word : "";
    }
    word = text.substr(at, end - at);
    at = skip_blanks(text, end);
    bool attribute = word == "__launch_bounds__" || word == "__maxnreg__" || word == "__attribute__";
    if (attribute && at < text.size() && text[at] == '(') at = skip_parentheses(text, at);
  }
}

std::vector<std::string> kernel_names(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& marker : kernel_markers(text)) {
    std::size_t at = find_word(text, marker, 0);
    for (; at != std::string::npos; at = find_word(text, marker, at + marker.size())) {
      if (in_directive(text, at) || after_template(text, at)) continue;
      std::string name = kernel_name(text, at + marker.size());
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

bool at_file_scope(const std::string& text, std::size_t at) {
  int depth = 0;
  for (std::size_t i = 0; i < at; ++i) {
    depth += text[i] == '{';
    depth -= text[i] == '}';
  }
  return depth == 0;
}

// `extern __shared__ T name[];` becomes a pointer to the launch's dynamic shared memory.
std::string with_dynamic_shared(std::string text) {
  static const std::regex attribute(R"((__align__|alignas)\s*\([^)]*\)|__attribute__\s*\(\([^)]*\)*\))");
  static const std::regex declaration(R"(([\s\S]*?)(\w+)\s*\[\s*\]\s*)");
  std::size_t at = 0;
  while ((at = find_word(text, "extern", at)) != std::string::npos) {
    std::size_t end = text.find(';', at);
    if (end == std::string::npos) break;
    std::string body = std::regex_replace(text.substr(at + 6, end - at - 6), attribute, " ");
    std::size_t marker = find_word(body, "__shared__", 0);
    std::smatch match;
    if (marker == std::string::npos || body.find_first_of("{(\"") != std::string::npos) {  // extern "C"
      at += 6;
      continue;
    }
    body.erase(marker, 10);
    if (!std::regex_match(body, match, declaration)) {
      at = end;
      continue;
    }
    std::string type = match[1], name = match[2];
    std::string pointer = "reinterpret_cast<" + type + "*>(emu_dynamic_shared())";
    std::string replacement;
    if (at_file_scope(text, at)) {
      auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n') + 1;
      std::replace(pointer.begin(), pointer.end(), '\n', ' ');
      replacement = "\n#define " + name + " (" + pointer + ")\n#line " + std::to_string(line) + "\n";
    } else {
      replacement = type + "* const " + name + " = " + pointer;
    }
    text.replace(at, end - at, replacement);
    at += replacement.size();
  }
  return text;
}

// CUDA C++ takes `static __shared__` and `__shared__ alignas(16)`; g++ takes neither.
std::string with_specifiers_in_order(std::string text) {
  for (std::size_t at = find_word(text, "__shared__", 0); at != std::string::npos;
       at = find_word(text, "__shared__", at + 1)) {
    std::size_t next = skip_blanks(text, at + 10);
    if (text.compare(next, 7, "alignas") == 0) text.replace(next, 7, "__align__");
    std::size_t previous = text.find_last_not_of(" \t\n", at == 0 ? 0 : at - 1);
    if (previous != std::string::npos && previous >= 5 && text.compare(previous - 5, 6, "static") == 0)
      text.replace(previous - 5, 6, "      ");
  }
  return text;
}

}  // namespace

std::string with_headers(const std::string& text, const std::string& name,
                         const std::map<std::string, std::string>& headers) {
  static const std::regex include(R"(\s*#\s*include\s*["<]([^">]*)[">].*)"), once(R"(\s*#\s*pragma\s+once\b.*)");
  std::istringstream lines(text);
  std::string result, line;
  std::smatch match;
  bool guarded = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find('#') == std::string::npos) {
      result += line + "\n";
      continue;
    }
    if (std::regex_match(line, once)) {
      std::string guard = "EMU_ONCE_";
      for (char c : name) guard += in_word(c) ? std::string(1, c) : "_" + std::to_string(static_cast<int>(c)) + "_";
      result +=
          "#ifndef " + guard + "\n#define " + guard + "\n#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
      guarded = true;
      continue;
    }
    const bool includes = std::regex_match(line, match, include);
    const auto header = includes ? headers.find(match[1]) : headers.end();
    if (header == headers.end()) {
      result += line + "\n";
    } else {
      result += "#line 1 \"" + header->first + "\"\n" + with_headers(header->second, header->first, headers);
      result += "#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
    }
  }
  return guarded ? result + "#endif\n" : result;
}

std::string for_gcc(const std::string& text, const std::string& name, const std::vector<std::string>& expressions) {
  std::string code = without_comments(text);
  code = with_dynamic_shared(std::move(code));
  code = with_specifiers_in_order(std::move(code));
  std::string table;
  for (const std::string& kernel : kernel_names(code))
    table += "  EmuEntry<&" + kernel + ">::describe(\"" + kernel + "\"),\n";
  for (const std::string& instance : expressions) {
    std::size_t start = instance.find_first_not_of("& ");
    table += "  EmuEntry<&" + instance.substr(start) + ">::describe(\"" + instance + "\"),\n";
  }
  return "#line 1 \"" + name + "\"\n" + code +
         "\n#line 1 \"table of kernels\"\nstatic constexpr EmuKernel emu_kernels[] = {\n" + table +
         "  {nullptr, nullptr, 0, nullptr}};\n"
         "extern \"C\" __attribute__((visibility(\"default\"))) const EmuModule emu_module = {\n"
         "  kEmuAbi, emu_kernels, [] { return &emu_block; }};\n";
}

}  // namespace varve::emulator
