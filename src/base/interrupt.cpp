#include "varve/interrupt.h"

#include <memory>
#include <mutex>

namespace varve {
namespace {

using Check = std::function<bool()>;
std::mutex guard;

std::shared_ptr<const Check>& current() {
  static std::shared_ptr<const Check> check;
  return check;
}

std::shared_ptr<const Check> held() {
  const std::lock_guard lock(guard);
  return current();
}

}  // namespace

void set_interrupt_check(Check asked) {
  auto check = asked ? std::make_shared<const Check>(std::move(asked)) : nullptr;
  const std::lock_guard lock(guard);
  current() = std::move(check);
}

bool has_interrupt_check() { return held() != nullptr; }

bool interrupt_asked() {
  const std::shared_ptr<const Check> check = held();
  return check && (*check)();
}

void throw_if_interrupted() {
  if (interrupt_asked()) throw Interrupted("interrupted.");
}

}  // namespace varve
