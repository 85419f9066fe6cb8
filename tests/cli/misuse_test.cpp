// The command under signals, limits and hostile files: it says what happened, and its exit code says it too.
#include <sys/stat.h>

#include <fstream>

#include "cli/command.h"
#include "varve/io.h"

#ifdef VARVE_CLI_PATH
namespace {

using namespace varve::test;
namespace fs = std::filesystem;

// Lines of a shell, in which $VARVE is the command.
Result shell(const std::string& lines) {
  return varve_command("--version > /dev/null; { export VARVE=" VARVE_CLI_PATH "; " + lines + "; }");
}

const std::string kTiny = " epochs=1 data.train=100 data.test=20 batch=20 ";

TEST(CliMisuse, LostOutputIsAFailure) {
  const Folder folder;
  for (const char* arguments : {"info --json", "zoo", "ops --json", "--help", "completion bash"}) {
    const Result result = shell("$VARVE " + std::string(arguments) + " 2>&1 > /dev/full");
    EXPECT_EQ(result.code, 1) << arguments;
    EXPECT_TRUE(contains(result.out, "error: the output could not be written")) << arguments << "\n" << result.out;
  }
  const Result train = shell("$VARVE train lenet5 --quiet --json" + kTiny + "2>&1 > /dev/full");
  EXPECT_EQ(train.code, 1);
  EXPECT_TRUE(contains(train.out, "could not be written")) << train.out;
  EXPECT_TRUE(fs::exists("runs/lenet5-1/best.safetensors"));  // the run is not lost with it
}

TEST(CliMisuse, SignalsSaveAndTheExitCodeSaysWhich) {
  struct Case {
    const char* signal;
    int code;
  };
  for (const Case& c : {Case{"INT", 130}, Case{"TERM", 143}, Case{"HUP", 129}}) {
    const Folder folder;
    // A shell lets what it starts in the background ignore SIGINT; python starts it as a terminal would.
    std::ofstream("start.py")
        << "import subprocess, signal, sys, time\n"
           "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
           "p = subprocess.Popen(sys.argv[2:], stdout=open('out', 'w'), stderr=subprocess.STDOUT)\n"
           "while 'parameters' not in open('out').read(): time.sleep(0.02)\n"
           "p.send_signal(getattr(signal, 'SIG' + sys.argv[1]))\n"
           "print('code', p.wait())\n";
    const Result result = shell("python3 start.py " + std::string(c.signal) +
                                " $VARVE train lenet5 epochs=1 data.train=20000 data.test=100 batch=20; cat out");
    EXPECT_TRUE(contains(result.out, "code " + std::to_string(c.code) + "\n")) << c.signal << "\n" << result.out;
    EXPECT_TRUE(contains(result.out, "interrupted and saved. To go on: varve train runs/lenet5-1 --resume"))
        << result.out;
    EXPECT_TRUE(fs::exists("runs/lenet5-1/last.safetensors"));
  }
}

TEST(CliMisuse, OneRunAtATimeInAFolder) {
  const Folder folder;
  ASSERT_EQ(varve_command("train lenet5 --quiet" + kTiny).code, 0);
  const Result both = shell(
      "$VARVE train runs/lenet5-1 --resume epochs=100000 > first 2>&1 & p=$!; "
      "until grep -q parameters first; do sleep 0.02; done; "
      "$VARVE train runs/lenet5-1 --resume; echo code $?; kill $p; wait $p; echo pid $p");
  const std::string pid = both.out.substr(both.out.rfind("pid ") + 4);
  EXPECT_TRUE(contains(both.out, "\"runs/lenet5-1\" is being written by process " + pid.substr(0, pid.find('\n'))))
      << both.out;
  EXPECT_TRUE(contains(both.out, "code 1\n")) << both.out;
}

TEST(CliMisuse, AFailedStartLeavesNothing) {
  const Folder folder;
  std::ofstream("bad.safetensors") << "x";
  EXPECT_EQ(varve_command("train lenet5 weights=bad.safetensors" + kTiny).code, 1);
  EXPECT_FALSE(fs::exists("runs"));
}

TEST(CliMisuse, AResumedRunThatIsCompleteSaysSo) {
  const Folder folder;
  ASSERT_EQ(varve_command("train lenet5 --quiet" + kTiny).code, 0);
  const Result again = varve_command("train runs/lenet5-1 --resume");
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(contains(again.out, "runs/lenet5-1 has trained its epoch already")) << again.out;
  EXPECT_FALSE(contains(again.out, "epoch 2")) << again.out;
}

TEST(CliMisuse, NamesDoNotSteerTheTerminal) {
  const Folder folder;
  const std::string evil = "a\x1b]0;owned\x07";
  fs::create_directories("set/" + evil);
  fs::create_directories("set/b");
  const varve::Picture picture{.height = 8, .width = 8, .channels = 1, .pixels = std::vector<std::uint8_t>(64, 9)};
  for (const char* name : {"/1.png", "/2.png", "/3.png"}) {
    varve::save_png("set/" + evil + name, picture);
    varve::save_png(std::string("set/b") + name, picture);
  }
  std::ofstream("set/" + evil + "/4.png") << "not a picture";
  std::ofstream("set/" + evil + "/5.tif") << "skipped, by name";
  for (const char* arguments : {"datasets folder:set height=8 width=8", "train lenet5 data=folder:set epochs=1",
                                "zoo $'\\x1b[2J'", "train $'runs/\\x1b[2J'", "$'\\x1b[2J'",
                                "train lenet5 epochs=1 $'name=\\x1b[2J'", "datasets $'folder:\\x1b[2J'"}) {
    const Result result = shell("bash -c \"$VARVE " + std::string(arguments) + "\"");
    EXPECT_FALSE(contains(result.out, "\x1b")) << arguments << "\n" << varve::printable(result.out);
    EXPECT_FALSE(contains(result.out, "\x07")) << arguments;
  }
}

TEST(CliMisuse, ALimitOfThreadsIsLivedWith) {
  const Folder folder;
  // Stacks of a thousand threads do not fit into the address space.
  const Result result = shell("ulimit -v 4000000; $VARVE train lenet5 threads=1000" + kTiny);
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "does not let this process start 1000 threads: it goes on with")) << result.out;
  const Result variable = shell("ulimit -v 4000000; VARVE_THREADS=1000 $VARVE train lenet5 workers=8" + kTiny);
  EXPECT_EQ(variable.code, 0) << variable.out;
}

TEST(CliMisuse, MemoryThatIsNotThereIsAMessage) {
  const Folder folder;
  std::ofstream table("t.csv");
  for (int i = 0; i < 1500000; ++i) table << i << ",1,2,3,4,5,6,7,8,a\n";
  table.close();
  const Result result = shell("ulimit -v 700000; VARVE_THREADS=1 $VARVE datasets csv:t.csv");
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_TRUE(contains(result.out, "error: out of memory")) << result.out;
}

TEST(CliMisuse, BombsAreRefused) {
  const Folder folder;
  std::ofstream("bomb.py") << "import zipfile\n"
                              "header = b\"{'descr': '|u1', 'fortran_order': False, 'shape': (2000000000,), }\"\n"
                              "header += b' ' * (117 - len(header)) + b'\\n'\n"
                              "z = zipfile.ZipFile('bomb.npz', 'w', zipfile.ZIP_DEFLATED, compresslevel=1)\n"
                              "with z.open('x_train.npy', 'w', force_zip64=True) as f:\n"
                              "    f.write(b'\\x93NUMPY\\x01\\x00' + len(header).to_bytes(2, 'little') + header)\n"
                              "    for i in range(2000): f.write(bytes(1000000))\n"
                              "z.close()\n";
  ASSERT_EQ(std::system("python3 bomb.py"), 0);
  const Result result = shell("ulimit -v 1500000; VARVE_THREADS=1 $VARVE datasets npz:bomb.npz");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "it unpacks to more than 1.0 GB, from ")) << result.out;
  EXPECT_TRUE(contains(result.out, "VARVE_UNPACK_GB=16")) << result.out;
}

}  // namespace
#endif
