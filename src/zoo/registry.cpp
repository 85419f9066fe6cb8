#include <algorithm>
#include <cmath>

#include "zoo/families.h"

namespace varve::zoo {

namespace {

[[noreturn]] void refuse(const std::string& name, double given, const std::string& expected) {
  std::string number = std::to_string(given);
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  throw Error("zoo: " + name + " must be " + expected + ", got " + number + ".");
}

std::vector<Entry> collect() {
  std::vector<Entry> all;
  for (const auto family : {feed_forward, cnn, alexnet, vgg, googlenet, inception, resnet, xception, mobilenet,
                            densenet, shufflenet, squeezenet, recurrent, gpt, seq2seq, rbm})
    for (Entry& entry : family()) all.push_back(std::move(entry));
  return all;
}

}  // namespace

std::int64_t Sizes::whole(const std::string& name, std::int64_t standard, std::int64_t most) const {
  const auto found = given_.find(name);
  if (found == given_.end()) return standard;
  const double value = found->second;
  if (!(value >= 1 && value <= static_cast<double>(most)) || std::floor(value) != value)
    refuse(name, value, "a whole number from 1 to " + std::to_string(most));
  return static_cast<std::int64_t>(value);
}

double Sizes::share(const std::string& name, double standard) const {
  const auto found = given_.find(name);
  if (found == given_.end()) return standard;
  if (!(found->second >= 0 && found->second < 1)) refuse(name, found->second, "from 0 to less than 1");
  return found->second;
}

bool Sizes::flag(const std::string& name, bool standard) const {
  const auto found = given_.find(name);
  if (found == given_.end()) return standard;
  if (found->second != 0 && found->second != 1) refuse(name, found->second, "0 or 1");
  return found->second != 0;
}

double Sizes::factor(const std::string& name, double standard) const {
  const auto found = given_.find(name);
  if (found == given_.end()) return standard;
  if (!(found->second > 0 && found->second <= 16)) refuse(name, found->second, "more than 0 and at most 16");
  return found->second;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = collect();
  return all;
}

const Entry& find(const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw Error("zoo: there is no network '" + name + "'." + did_you_mean(name, names, " `varve zoo` lists them."));
}

nn::Layer make(const std::string& name, const std::map<std::string, double>& sizes) {
  const Entry& entry = find(name);
  std::vector<std::string> known = entry.sizes;
  known.push_back("classes");
  for (const auto& [key, value] : sizes) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string all;
    for (const std::string& size : known) all += (all.empty() ? "" : ", ") + size;
    throw Error("zoo: " + name + " has no size '" + key + "'." + did_you_mean(key, known, " It has " + all + "."));
  }
  return entry.make(sizes);
}

}  // namespace varve::zoo
