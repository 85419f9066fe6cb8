// Options by name, as configuration files give them, and the errors that go with them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace varve::optim {

using NamedNumbers = std::vector<std::pair<std::string, double>>;

std::string text(double number);  // as short as it can be

// Throw Error that begins with `what` ("adam: rate") unless the number is finite and in the range.
double check_at_least(const std::string& what, double value, double least);
double check_positive(const std::string& what, double value);
double check_fraction(const std::string& what, double value);  // 0 or more, less than 1

// `known` does not hold `word`: throws `what` "word" is not known, with the nearest and all of them.
[[noreturn]] void throw_unknown(const std::string& what, const std::string& word,
                                const std::vector<std::string>& known);

double to_whole(const std::string& what, double value);  // throws unless it is a whole number that an int holds
bool to_flag(const std::string& what, double value);     // throws unless it is 0 or 1

// A field of an options struct, by its name.
template <class Options>
struct Field {
  const char* name;
  std::variant<double Options::*, bool Options::*, int Options::*> member;
};
template <class Options>
using Fields = std::vector<Field<Options>>;

template <class Options>
std::vector<std::string> names_of(const Fields<Options>& fields) {
  std::vector<std::string> names;
  for (const Field<Options>& field : fields) names.push_back(field.name);
  return names;
}

// Sets the field of that name; false when there is none.
template <class Options>
bool set_field(Options& options, const Fields<Options>& fields, const std::string& owner, const std::string& name,
               double value) {
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return name == field.name; });
  if (at == fields.end()) return false;
  const std::string what = owner + ": " + name;
  if (const auto* number = std::get_if<double Options::*>(&at->member)) options.*(*number) = value;
  if (const auto* flag = std::get_if<bool Options::*>(&at->member)) options.*(*flag) = to_flag(what, value);
  if (const auto* count = std::get_if<int Options::*>(&at->member))
    options.*(*count) = static_cast<int>(to_whole(what, value));
  return true;
}

// The record of that name in a table; throws with the nearest name.
template <class Record>
const Record& find_record(const std::vector<Record>& table, const char* what, const std::string& name) {
  std::vector<std::string> known;
  for (const Record& record : table) {
    if (record.name == name) return record;
    known.push_back(record.name);
  }
  throw_unknown(what, name, known);
}

}  // namespace varve::optim
