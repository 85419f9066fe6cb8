#include "optim/named.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "varve/error.h"

namespace varve::optim {

std::string text(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

double check_at_least(const std::string& what, double value, double least) {
  if (std::isfinite(value) && value >= least) return value;
  throw Error(what + " is " + text(value) + "; expected a number, " + text(least) + " or more.");
}

double check_positive(const std::string& what, double value) {
  if (std::isfinite(value) && value > 0) return value;
  throw Error(what + " is " + text(value) + "; expected a number greater than 0.");
}

double check_fraction(const std::string& what, double value) {
  if (value >= 0 && value < 1) return value;
  throw Error(what + " is " + text(value) + "; expected 0 or more, less than 1.");
}

double to_whole(const std::string& what, double value) {
  if (std::floor(value) == value && std::abs(value) <= std::numeric_limits<int>::max()) return value;
  throw Error(what + " is " + text(value) + "; expected a whole number.");
}

bool to_flag(const std::string& what, double value) {
  if (value == 0 || value == 1) return value == 1;
  throw Error(what + " is " + text(value) + "; expected 0 (off) or 1 (on).");
}

void throw_unknown(const std::string& what, const std::string& word, const std::vector<std::string>& known) {
  std::string message = what + " '" + word + "' is not known." + did_you_mean(word, known);
  message += known.empty() ? " There are none" : " There are: ";
  for (std::size_t i = 0; i < known.size(); ++i) message += (i == 0 ? "" : ", ") + known[i];
  throw Error(message + ".");
}

}  // namespace varve::optim
