#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <string>

#include "temporary_folder.h"
#include "varve/error.h"

namespace varve {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  std::string contents(const fs::path& path) {
    const std::vector<std::byte> data = read_file(path, 1000);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  int entries() { return static_cast<int>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }

  test::TemporaryFolder made_;
  const fs::path& folder_ = made_.path();
};

TEST_F(Files, AppearWholeOrNotAtAll) {
  const fs::path path = folder_ / "a.bin";
  {
    AtomicFile file(path);
    file.write("half of it");
  }
  EXPECT_EQ(entries(), 0);
  {
    AtomicFile file(path);
    file.write("one, ");
    file.write("two");
    EXPECT_FALSE(fs::exists(path));
    file.commit();
    EXPECT_THROW(file.write("late"), Error);
    EXPECT_THROW(file.commit(), Error);
  }
  EXPECT_EQ(contents(path), "one, two");
  {
    AtomicFile file(path);
    file.write("abandoned");
  }
  EXPECT_EQ(contents(path), "one, two");
  EXPECT_EQ(entries(), 1);
}

TEST_F(Files, ErrorsNameTheFile) {
  const auto message = [](auto f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const fs::path missing = folder_ / "missing.bin";
  EXPECT_EQ(message([&] { read_file(missing, 10); }),
            "cannot open \"" + missing.string() + "\": No such file or directory.");
  EXPECT_NE(message([&] { read_file(folder_, 10); }).find("it is a folder"), std::string::npos);
  EXPECT_NE(message([&] { AtomicFile(folder_ / "no" / "such"); }).find("No such file"), std::string::npos);
  EXPECT_NE(message([&] { AtomicFile file(folder_); }).find("it is a folder"), std::string::npos);

  std::ofstream(folder_ / "large.bin") << std::string(100, 'x');
  EXPECT_NE(message([&] { read_file(folder_ / "large.bin", 99); }).find("too large: 100 B"), std::string::npos);
  EXPECT_EQ(read_file(folder_ / "large.bin", 100).size(), 100u);
}

TEST_F(Files, EndlessFilesStopAtTheLimit) {
  ASSERT_TRUE(fs::exists("/dev/zero"));
  EXPECT_THROW(read_file("/dev/zero", 1 << 16), Error);
}

TEST_F(Files, FullDiskLeavesTheOldFile) {
  const fs::path path = folder_ / "a.bin";
  std::ofstream(path) << "old";
  // A limit on the size of files fails a write just as a full disk does, and by default also sends a signal.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    AtomicFile file(path);
    file.write(std::string(1000, 'x'));
    file.commit();
  } catch (const Error& e) {
    message = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write \"" + path.string() + "\": File too large.");
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(Files, EmptyAndVirtualFiles) {
  std::ofstream(folder_ / "empty");
  EXPECT_TRUE(read_file(folder_ / "empty", 0).empty());
  EXPECT_FALSE(read_file("/proc/self/status", 1 << 20).empty());  // says size 0
}

}  // namespace
}  // namespace varve
