// Memory limits of containers, from the files of a made-up system.
#include "base/container.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary_folder.h"

namespace varve {
namespace {

class System {
 public:
  void file(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = folder_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::optional<MemoryLimit> memory() const { return container_memory(folder_.path()); }

 private:
  test::TemporaryFolder folder_;
};

TEST(Container, WithoutLimitsThereIsNone) {
  const System system;
  EXPECT_FALSE(system.memory());
  system.file("proc/self/cgroup", "0::/user.slice\n");
  system.file("sys/fs/cgroup/user.slice/memory.max", "max\n");
  EXPECT_FALSE(system.memory());
  system.file("proc/self/cgroup", "4:cpu,cpuacct:/a\n9:memory:/a\n");
  system.file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(system.memory());
}

TEST(Container, VersionTwo) {
  const System system;
  system.file("proc/self/cgroup", "0::/pod/app\n");
  system.file("sys/fs/cgroup/pod/app/memory.max", "2000\n");
  system.file("sys/fs/cgroup/pod/app/memory.current", "1500\n");
  system.file("sys/fs/cgroup/pod/app/memory.stat", "anon 1000\ninactive_file 300\n");
  ASSERT_TRUE(system.memory());
  EXPECT_EQ(system.memory()->bytes, 2000u);
  EXPECT_EQ(system.memory()->available, 800u);
  // A group above may be tighter.
  system.file("sys/fs/cgroup/pod/memory.max", "1700\n");
  system.file("sys/fs/cgroup/pod/memory.current", "1600\n");
  EXPECT_EQ(system.memory()->bytes, 1700u);
  EXPECT_EQ(system.memory()->available, 100u);
  // Swap space that the group may use counts.
  system.file("proc/meminfo", "MemTotal: 100 kB\nSwapTotal: 1000 kB\n");
  system.file("sys/fs/cgroup/pod/memory.swap.max", "0\n");
  system.file("sys/fs/cgroup/pod/app/memory.swap.max", "500\n");
  EXPECT_EQ(system.memory()->bytes, 1700u);
  system.file("sys/fs/cgroup/pod/memory.swap.max", "1000\n");
  EXPECT_EQ(system.memory()->bytes, 2500u);
}

TEST(Container, VersionOneAlsoWhereThePathIsTheHosts) {
  const System system;
  system.file("proc/self/cgroup", "9:memory:/docker/4711\n1:name=systemd:/docker/4711\n0::/x\n");
  system.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  system.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  system.file("sys/fs/cgroup/memory/memory.stat", "cache 9\ntotal_inactive_file 400\n");
  ASSERT_TRUE(system.memory());
  EXPECT_EQ(system.memory()->bytes, 5000u);
  EXPECT_EQ(system.memory()->available, 4400u);
}

TEST(Container, DamagedFilesAreNoLimit) {
  const System system;
  system.file("proc/self/cgroup", "nonsense\n0\n0::\n9:memory:/a/../../..\n");
  system.file("sys/fs/cgroup/memory.max", "-1 lots\n");
  EXPECT_FALSE(system.memory());
}

TEST(Container, ThisMachineHasMemory) {
  EXPECT_GT(free_memory(), 0u);
  EXPECT_GE(most_memory(), free_memory());
}

}  // namespace
}  // namespace varve
