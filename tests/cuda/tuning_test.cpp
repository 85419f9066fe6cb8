// Choices that are kept: what they hold for, files that several processes share, and files that are damaged.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "backends/cuda/cublas/cublas.h"
#include "backends/cuda/tuning/choices.h"
#include "backends/cuda/tuning/timing.h"
#include "base/text.h"
#include "cuda/gpu_here.h"
#include "temporary_folder.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

class TuningChoices : public testing::Test {
 protected:
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }

  test::TemporaryFolder folder_;
  const std::string file_ = folder_ / "cache/choices.txt";
};

ChoiceKey key(const std::string& problem) { return choice_key(ChoiceKind::conv, problem, {}); }

TEST_F(TuningChoices, AreReadBack) {
  const ChoiceKey conv = key("conv2d 8x8"), gemm = choice_key(ChoiceKind::gemm, "conv2d 8x8", {});
  {
    Choices first(file_);
    EXPECT_EQ(first.find(conv), std::nullopt);
    EXPECT_EQ(first.keep(conv, "eng1 k2=3"), "eng1 k2=3");
    EXPECT_EQ(first.keep(gemm, "00ff"), "00ff");
    first.assume(key("large"), "plain");
    EXPECT_EQ(first.find(key("large")), "plain");
  }
  const Choices second(file_);
  EXPECT_EQ(second.damage(), "");
  EXPECT_EQ(second.find(conv), "eng1 k2=3");
  EXPECT_EQ(second.find(gemm), "00ff");
  EXPECT_EQ(second.find(key("large")), std::nullopt);  // was not measured
}

TEST_F(TuningChoices, AnEditedKernelInheritsNone) {
  const auto of = [](const std::string& generated) {
    return choice_key(ChoiceKind::kernel, "small f32", {{"matmul/matmul_small.cu", generated}});
  };
  Choices choices(file_);
  choices.keep(of("#define T float\n"), "1");
  EXPECT_EQ(choices.find(of("#define T float\n")), "1");
  EXPECT_EQ(choices.find(of("#define T float\n// edited\n")), std::nullopt);
  EXPECT_EQ(
      choices.find(choice_key(ChoiceKind::kernel, "small f32", {{"matmul/matmul_plain.cu", "#define T float\n"}})),
      std::nullopt);
  EXPECT_EQ(choices.find(choice_key(ChoiceKind::kernel, "small f32", {})), std::nullopt);
}

TEST_F(TuningChoices, HoldForTheVersionsOfTheLibraries) {
  const std::string basis = key("p").basis;
  EXPECT_NE(basis.find(cat("cublaslt ", cublasLtGetVersion())), std::string::npos) << basis;
  EXPECT_NE(basis.find("cudnn "), std::string::npos) << basis;
  Choices choices(file_);
  choices.keep(key("p"), "1");
  ChoiceKey other = key("p");
  other.basis = "cublaslt 1 cudnn 2";
  EXPECT_EQ(choices.find(other), std::nullopt);
}

TEST_F(TuningChoices, TheFirstOfTwoProcessesCounts) {
  Choices first(file_), second(file_);  // neither has seen what the other writes
  first.keep(key("a"), "1");
  second.keep(key("b"), "2");
  EXPECT_EQ(second.keep(key("a"), "3"), "1");
  EXPECT_EQ(second.find(key("a")), "1");
  const Choices later(file_);
  EXPECT_EQ(later.find(key("a")), "1");
  EXPECT_EQ(later.find(key("b")), "2");
}

TEST_F(TuningChoices, ProcessesDoNotLoseEachOthers) {
  constexpr int kProcesses = 4, kEach = 12;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Choices choices(file_);
      for (int i = 0; i < kEach; ++i) choices.keep(key(cat("problem ", p, " ", i)), cat(p));
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const Choices choices(file_);
  EXPECT_EQ(choices.damage(), "");
  for (int p = 0; p < kProcesses; ++p)
    for (int i = 0; i < kEach; ++i) EXPECT_EQ(choices.find(key(cat("problem ", p, " ", i))), cat(p)) << p << " " << i;
}

TEST_F(TuningChoices, ADamagedFileIsIgnoredAndWrittenAnew) {
  {
    Choices choices(file_);
    choices.keep(key("a"), "1");
    choices.keep(key("b"), "2");
  }
  const std::string good = read();
  std::string flipped = good;
  flipped[flipped.size() - 2] ^= 1;  // a value, without its checksum
  for (const std::string& bad : {std::string("rubbish"), std::string(), good.substr(0, good.size() - 3), flipped,
                                 good + "no checksum\tconv\tb\tp\tv\n"}) {
    write(bad);
    Choices choices(file_);
    EXPECT_NE(choices.damage(), "") << bad;
    EXPECT_EQ(choices.find(key("a")), std::nullopt) << bad;
    EXPECT_EQ(choices.keep(key("c"), "3"), "3");
    const Choices again(file_);
    EXPECT_EQ(again.damage(), "") << bad;
    EXPECT_EQ(again.find(key("c")), "3") << bad;
  }
}

TEST_F(TuningChoices, AFileThatCannotBeWrittenIsNoError) {
  Choices choices("/dev/null/choices.txt");
  EXPECT_EQ(choices.keep(key("a"), "1"), "1");
  EXPECT_EQ(choices.find(key("a")), "1");
}

TEST(TuningHex, BytesThereAndBack) {
  const unsigned char bytes[3] = {0x00, 0x9e, 0xff};
  unsigned char back[3] = {};
  EXPECT_EQ(hex_of(bytes, 3), "009eff");
  EXPECT_TRUE(bytes_of_hex("009eff", back, 3));
  EXPECT_EQ(back[1], 0x9e);
  for (const char* bad : {"", "009ef", "009eff0", "009efg"}) EXPECT_FALSE(bytes_of_hex(bad, back, 3)) << bad;
}

TEST(TuningAgreement, IsRoundingAndNoMore) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_TRUE(agree({1, -2, 0.01}, {1.001, -2, 0}));
  EXPECT_FALSE(agree({1, -2, 0.1}, {1, -2, 0}));
  EXPECT_TRUE(agree({nan, infinity, 1}, {nan, infinity, 1}));
  EXPECT_FALSE(agree({nan, 1}, {0, 1}));
  EXPECT_FALSE(agree({infinity, 1}, {-infinity, 1}));
}

// On the GPU, or the emulated one.
TEST(TuningCandidates, OneThatDisagreesOrFailsNeverWins) {
  if (!has_gpu()) GTEST_SKIP() << no_gpu();
  const std::shared_ptr<ir::Remote> memory = context().allocate(1024);
  Candidates candidates;
  int right = 0, wrong = 0;
  candidates.reset = [&] { fill_with_numbers(memory->address, memory->bytes); };
  candidates.results = {{memory->address, 256, f32}};
  candidates.runs = {[&] { ++right; },  // leaves what was filled in
                     [&] {
                       ++wrong;
                       fill_with_numbers(memory->address, memory->bytes, Signs::positive);
                     },
                     [] { throw Error("does not work."); }};
  EXPECT_EQ(fastest_candidate(candidates), 0u);
  EXPECT_GT(right, 1);
  EXPECT_EQ(wrong, 1);  // compared, and not timed
  candidates.runs = {candidates.runs[2], candidates.runs[0]};
  EXPECT_EQ(fastest_candidate(candidates), 1u);
  candidates.runs = {candidates.runs[0]};
  EXPECT_EQ(fastest_candidate(candidates), std::nullopt);
}

}  // namespace
}  // namespace varve::cuda
