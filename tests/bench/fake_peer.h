// A framework that is Varve in disguise: its adapter asks Varve's own worker and spoils the answer as the test wants.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace varve::test {

class FakePeer {
 public:
  // How it behaves: honest, wrong-loss, wrong-count, crash, hang, killed, silent, garbage, liar, refuses.
  explicit FakePeer(const std::string& behaviour) {
    std::ofstream(folder_ / "torch_adapter.py") << kScript;
    set("VARVE_ADAPTERS", folder_.path().string());
    set("VARVE_PEERS_PYTHON", "/usr/bin/python3");
    set("XDG_CACHE_HOME", folder_ / "cache");  // nothing is remembered from test to test
    set("FAKE_BEHAVIOUR", behaviour);
#ifdef VARVE_CLI_PATH
    set("FAKE_VARVE", VARVE_CLI_PATH);
#endif
  }
  ~FakePeer() {
    for (const char* name : {"VARVE_ADAPTERS", "VARVE_PEERS_PYTHON", "XDG_CACHE_HOME", "FAKE_BEHAVIOUR", "FAKE_VARVE"})
      unsetenv(name);
  }
  FakePeer(const FakePeer&) = delete;
  FakePeer& operator=(const FakePeer&) = delete;

  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

 private:
  static constexpr const char* kScript = R"(
import json, os, signal, subprocess, sys, time
behaviour = os.environ["FAKE_BEHAVIOUR"]
request = json.load(open(sys.argv[1]))
print("the fake was asked for", request["task"], flush=True)
if behaviour == "crash": os.abort()
if behaviour == "killed": os.kill(os.getpid(), signal.SIGKILL)
if behaviour == "hang":
    subprocess.Popen(["sleep", "1000"])  # a child that would outlive it
    time.sleep(1000)
if behaviour == "silent": sys.exit(3)
def say(answer): json.dump(answer, open(request["result"], "w"))
if behaviour == "garbage":
    open(request["result"], "w").write('{"schema": 1, "status": "ok", "samples_ms": [1, ')
elif behaviour == "liar":
    say({"schema": 1, "status": "ok", "samples_ms": [1.0, -2.0]})
elif behaviour == "refuses":
    say({"schema": 1, "status": "unsupported", "reason": "not on a Sunday"})
else:
    subprocess.run([os.environ["FAKE_VARVE"], "bench", "worker", sys.argv[1]], check=True)
    answer = json.load(open(request["result"]))
    answer["version"] = "9.9"
    if behaviour == "wrong-loss" and "losses" in answer: answer["losses"][3] *= 1.002
    if behaviour == "wrong-count": answer["parameters"] += 1
    say(answer)
)";
  TemporaryFolder folder_;
};

}  // namespace varve::test
