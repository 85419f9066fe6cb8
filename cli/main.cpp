// The varve command. Exit codes: 0 success, 1 something failed, 2 bad usage, 128 + n ended by signal n.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>

#include "cli/menu.h"
#include "varve/distributed.h"
#include "varve/error.h"

namespace {

int failed(const std::string& what, int code = varve::cli::kFailure) {
  std::cerr << "error: " << varve::printable(what) << '\n';
  varve::distributed::last_words(what);
  return code;
}

int run(const std::vector<std::string>& words) {
  try {
    return varve::cli::run(words);
  } catch (const varve::cli::UsageError& e) {
    return failed(e.what(), varve::cli::kBadUsage);
  } catch (const std::bad_alloc&) {
    return failed(
        "out of memory: the system gave no more. A smaller batch, less data at once, or fewer threads need less; "
        "`varve doctor` says what is free.");
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}

// What was printed may still wait in a buffer, and a full disk or a closed pipe is noticed only now.
bool output_arrived() {
  std::cout.flush();
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const std::string why = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
  if (flushed && std::cout.good() && !std::ferror(stdout)) return true;
  std::cerr << "error: the output could not be written" << why << ". What was printed is not complete.\n";
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(std::vector<std::string>(argv + 1, argv + argc));
  return !output_arrived() && code == varve::cli::kOk ? varve::cli::kFailure : code;
}
