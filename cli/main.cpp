// The varve command. Exit codes: 0 success, 1 something failed, 2 bad usage.
#include <exception>
#include <iostream>

#include "cli/menu.h"

int main(int argc, char** argv) {
  try {
    return varve::cli::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const varve::cli::UsageError& e) {
    std::cerr << "error: " << e.what() << '\n';
    return varve::cli::kBadUsage;
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return varve::cli::kFailure;
  }
}
