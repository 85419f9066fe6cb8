// The XML that annotations are written in: elements and text. No document types, no entities but the five of XML, and
// attributes are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varve::data {

struct XmlNode {
  std::string name, text;  // text: of the element itself, without space around it
  std::vector<XmlNode> children;
  std::int64_t line = 0;

  const XmlNode* find(const std::string& child) const;  // the first of that name; null when there is none
};
// The root. Error that names the source and the line.
XmlNode parse_xml(const std::string& text, const std::string& source);

}  // namespace varve::data
