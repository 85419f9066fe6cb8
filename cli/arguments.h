#pragma once

#include <string>
#include <vector>

namespace varve::cli {

// Understands the words after the program's name and runs the command they ask for. Returns the exit code.
int run(std::vector<std::string> words);

}  // namespace varve::cli
