// Folders that workers share: what a killed run left behind goes when the next one starts.
#include "bench/scratch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "temporary_folder.h"

namespace varve::bench {
namespace {

namespace fs = std::filesystem;

pid_t ended_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST(Scratch, GoesWithItsOwnerAndTakesWhatTheKilledLeft) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(setenv("TMPDIR", folder.path().c_str(), 1), 0);
  const fs::path left = folder / ("varve-bench-" + std::to_string(ended_process()) + "-Ab3xYz");
  const fs::path alive = folder / ("varve-bench-" + std::to_string(getpid()) + "-Ab3xYz"),
                 other = folder / "varve-bench-";
  for (const fs::path& path : {left, alive, other}) fs::create_directory(path);
  std::ofstream(left / "weights.safetensors") << "x";
  std::string file;
  {
    const Scratch scratch;
    file = scratch.path("a");
    std::ofstream(file) << "x";
    EXPECT_TRUE(fs::exists(file));
    EXPECT_FALSE(fs::exists(left));
    EXPECT_TRUE(fs::exists(alive) && fs::exists(other));
  }
  unsetenv("TMPDIR");
  EXPECT_FALSE(fs::exists(fs::path(file).parent_path()));
}

}  // namespace
}  // namespace varve::bench
