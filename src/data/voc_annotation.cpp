#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "data/voc.h"
#include "data/xml.h"

namespace varve::data {
namespace {

class AnnotationReader {
 public:
  explicit AnnotationReader(const std::string& source) : source_(source) {}

  VocAnnotation read(const XmlNode& root) const {
    if (root.name != "annotation") fail(root, cat("expected <annotation>, got <", root.name, ">"));
    VocAnnotation all;
    for (const XmlNode& node : root.children)
      if (node.name == "object") all.boxes.push_back(box(node));
    return all;
  }

 private:
  [[noreturn]] void fail(const XmlNode& node, const std::string& what) const {
    throw Error(cat(source_, ", line ", node.line, ": ", what, "."));
  }
  const XmlNode& inside(const XmlNode& node, const char* name) const {
    const XmlNode* found = node.find(name);
    if (found == nullptr) fail(node, cat("<", node.name, "> has no <", name, ">"));
    return *found;
  }
  double number(const XmlNode& node, const char* name) const {
    constexpr double kMost = 1e9;
    const XmlNode& found = inside(node, name);
    double value = 0;
    const char* end = found.text.data() + found.text.size();
    const auto [stop, error] = std::from_chars(found.text.data(), end, value);
    if (error != std::errc() || stop != end || !(std::abs(value) <= kMost))
      fail(found, cat("<", name, "> is \"", found.text, "\": expected a number"));
    return value;
  }

  // The file counts pixels from 1, and its last ones are inside.
  VocBox box(const XmlNode& object) const {
    const XmlNode& bounds = inside(object, "bndbox");
    VocBox box = {.name = inside(object, "name").text,
                  .left = number(bounds, "xmin") - 1,
                  .top = number(bounds, "ymin") - 1,
                  .right = number(bounds, "xmax"),
                  .bottom = number(bounds, "ymax"),
                  .line = object.line};
    if (const XmlNode* difficult = object.find("difficult")) box.difficult = difficult->text == "1";
    if (!(box.left < box.right && box.top < box.bottom))
      fail(bounds, cat("a box from ", box.left + 1, ", ", box.top + 1, " to ", box.right, ", ", box.bottom,
                       " has nothing inside"));
    return box;
  }

  const std::string& source_;
};

}  // namespace

VocAnnotation parse_annotation(const std::string& text, const std::string& source) {
  return AnnotationReader(source).read(parse_xml(text, source));
}

const std::vector<std::string>& voc_classes() {
  static const std::vector<std::string> names = {
      "aeroplane",   "bicycle", "bird",  "boat",      "bottle", "bus",         "car",   "cat",  "chair", "cow",
      "diningtable", "dog",     "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"};
  return names;
}

}  // namespace varve::data
