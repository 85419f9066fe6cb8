// What the families of networks share. A family is a file; what it offers is a list of entries.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "varve/zoo.h"

namespace varve::zoo {

// The sizes a network was asked for, with what holds where nothing was said. A value out of bounds is an Error.
class Sizes {
 public:
  explicit Sizes(const std::map<std::string, double>& given) : given_(given) {}
  std::int64_t whole(const std::string& name, std::int64_t standard, std::int64_t most = 1 << 20) const;
  double share(const std::string& name, double standard) const;   // [0, 1)
  double factor(const std::string& name, double standard) const;  // (0, 16]
  bool flag(const std::string& name, bool standard) const;        // 0 or 1
  std::int64_t classes(std::int64_t standard) const { return whole("classes", standard); }

 private:
  const std::map<std::string, double>& given_;
};

// One function for each file, in the order in which `varve zoo` lists them.
std::vector<Entry> feed_forward();
std::vector<Entry> cnn();
std::vector<Entry> alexnet();
std::vector<Entry> vgg();
std::vector<Entry> googlenet();
std::vector<Entry> inception();
std::vector<Entry> resnet();
std::vector<Entry> xception();
std::vector<Entry> mobilenet();
std::vector<Entry> densenet();
std::vector<Entry> shufflenet();
std::vector<Entry> squeezenet();
std::vector<Entry> recurrent();
std::vector<Entry> gpt();
std::vector<Entry> seq2seq();
std::vector<Entry> rbm();

}  // namespace varve::zoo
