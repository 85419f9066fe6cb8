// The varve command, run as a user would.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "temporary_folder.h"
#include "text_checks.h"

#ifdef VARVE_CLI_PATH
namespace varve::test {

struct Result {
  int code = -1;
  std::string out;
};

enum class Streams { both, out };
inline Result varve_command(const std::string& arguments, Streams streams = Streams::both) {
  const std::string command =
      std::string(VARVE_CLI_PATH) + " " + arguments + (streams == Streams::both ? " 2>&1" : " 2>/dev/null");
  Result result;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return result;
  std::array<char, 4096> part;
  while (const std::size_t count = fread(part.data(), 1, part.size(), pipe)) result.out.append(part.data(), count);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

using Folder = WorkingFolder;

}  // namespace varve::test
#endif
