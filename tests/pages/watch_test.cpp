// The page of a running training in a browser: it takes new epochs over by itself, and has nothing to complain about.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "cli/served.h"
#include "temporary_folder.h"

#ifdef VARVE_CLI_PATH
namespace varve {
namespace {

TEST(WatchInBrowser, ThePageRefreshesItself) {
  const test::WorkingFolder folder;
  const test::Served training(
      {"train", "lenet5", "--watch", "epochs=100000", "data.train=100", "data.test=20", "batch=20"});
  ASSERT_GT(training.port(), 0);
  while (training.get("/page").find("Curves") == std::string::npos) {
  }
  const char* named = std::getenv("VARVE_CHROMIUM");
  const std::string command = std::string(named ? named : "chromium") +
                              " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr "
                              "--virtual-time-budget=600000"
                              " --user-data-dir=profile --dump-dom http://127.0.0.1:" +
                              std::to_string(training.port()) + "/ 2>&1";
  // Ten minutes of the page's clock, which stands still while it waits for an answer: some seconds of ours.
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_TRUE(pipe);
  std::string seen;
  std::array<char, 4096> part;
  while (const std::size_t count = fread(part.data(), 1, part.size(), pipe)) seen.append(part.data(), count);
  ASSERT_EQ(pclose(pipe), 0) << seen.substr(0, 3000);
  EXPECT_EQ(seen.find("CONSOLE"), std::string::npos) << seen.substr(0, 3000);
  EXPECT_NE(seen.find("data-state=\"training\""), std::string::npos) << seen.substr(0, 3000);
  EXPECT_NE(seen.find("Curves"), std::string::npos);
  const std::string mark = "data-pages=\"";
  const std::size_t at = seen.find(mark);
  ASSERT_NE(at, std::string::npos) << seen.substr(0, 3000);
  EXPECT_GE(std::atoi(seen.c_str() + at + mark.size()), 2) << "it saw one page only, while epochs went by";
}

}  // namespace
}  // namespace varve
#endif
