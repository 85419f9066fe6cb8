// Programs run aside, and workers that fail in every way.
#include "bench/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "bench/frameworks.h"
#include "fake_peer.h"

namespace varve::bench {
namespace {

Finished python(const std::string& script, Command command = {}) {
  command.words = {"/usr/bin/python3", "-c", script};
  return run(command);
}

TEST(Process, ExitCodeAndOutputComeBack) {
  const Finished done = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)");
  EXPECT_TRUE(done.started);
  EXPECT_EQ(done.exit_code, 7);
  EXPECT_NE(done.output.find("out"), std::string::npos);
  EXPECT_NE(done.output.find("err"), std::string::npos);
}

TEST(Process, NoShellReadsTheWords) {
  const Finished done = run({.words = {"echo", "$HOME; exit 3", "a b"}});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_EQ(done.output, "$HOME; exit 3 a b\n");
}

TEST(Process, OnlyTheEndOfLongOutputIsKept) {
  const Finished done = python("print('x' * 1000000 + 'the end')", {.tail_bytes = 100});
  EXPECT_LE(done.output.size(), 100u);
  EXPECT_TRUE(done.output.ends_with("the end\n"));
}

TEST(Process, AMissingProgramIsNoCrash) {
  const Finished done = run({.words = {"/no/such/program"}});
  EXPECT_FALSE(done.started);
  EXPECT_NE(done.output.find("No such file"), std::string::npos);
}

TEST(Process, TheLimitEndsItAndItsChildren) {
  const Finished done = python(
      "import subprocess, time\nprint('begun', flush=True)\nsubprocess.Popen(['sleep', '1000'])\ntime.sleep(1000)",
      {.limit_seconds = 1});
  EXPECT_TRUE(done.timed_out);
  EXPECT_EQ(done.signal, SIGKILL);
  EXPECT_LT(done.seconds, 60);
  EXPECT_NE(done.output.find("begun"), std::string::npos);
}

TEST(Process, EnvironmentAndProcessorsAreGiven) {
  const std::vector<int> one = spread_processors(1);
  ASSERT_EQ(one.size(), 1u);
  const Finished done = python("import os; print(os.environ['COLOUR'], len(os.sched_getaffinity(0)))",
                               {.environment = {{"COLOUR", "green"}}, .processors = one});
  EXPECT_EQ(done.output, "green 1\n");
  EXPECT_GE(spread_processors(100000).size(), one.size());
}

#ifdef VARVE_CLI_PATH
struct Failure {
  const char* behaviour;
  const char* status;
  const char* reason;
};

TEST(Workers, EveryFailureIsAnAnswer) {
  const Request request{.task = "step", .workload = "fnn-mnist", .batch = 2};
  for (const Failure& f : {Failure{"crash", "failed", "signal"}, Failure{"hang", "failed", "no answer within"},
                           Failure{"killed", "out_of_memory", "killed"}, Failure{"silent", "failed", "exit code 3"},
                           Failure{"garbage", "failed", "not JSON"}, Failure{"liar", "failed", "samples_ms"},
                           Failure{"refuses", "unsupported", "Sunday"}}) {
    const test::FakePeer fake(f.behaviour);
    const Answer answer = ask(find_framework("torch"), request, f.behaviour == std::string("hang") ? 2 : 60);
    EXPECT_EQ(answer.status(), f.status) << f.behaviour;
    EXPECT_NE(answer.json.value("reason", "").find(f.reason), std::string::npos) << answer.json;
  }
}

TEST(Workers, AMissingFrameworkSaysWhatToDo) {
  const test::FakePeer fake("honest");
  EXPECT_EQ(missing(find_framework("torch")), "");
  EXPECT_NE(missing(find_framework("jax")).find("VARVE_ADAPTERS"), std::string::npos);  // the fake has no such adapter
  unsetenv("VARVE_PEERS_PYTHON");
  EXPECT_NE(missing(find_framework("torch")).find("varve bench setup"), std::string::npos);
  EXPECT_EQ(missing(find_framework("varve")), "");
  unsetenv("VARVE_PYTHON");
  unsetenv("VARVE_ADAPTERS");  // the sources' own
  EXPECT_NE(missing(find_framework("varve-python")).find("python -m varve"), std::string::npos);
  setenv("VARVE_PYTHON", "/usr/bin/python3", 1);
  EXPECT_EQ(missing(find_framework("varve-python")), "");
  EXPECT_EQ(python_of(find_framework("varve-python")), "/usr/bin/python3");
  unsetenv("VARVE_PYTHON");
}
#endif

}  // namespace
}  // namespace varve::bench
