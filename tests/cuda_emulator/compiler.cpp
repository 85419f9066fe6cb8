#include "compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>

extern char** environ;

namespace varve::emulator {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
}

std::string environment(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

// The prelude lies beside this library.
const fs::path& prelude_folder() {
  static const fs::path folder = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&compile), &info);
    return fs::absolute(info.dli_fname).parent_path() / "prelude";
  }();
  return folder;
}

const std::string& prelude_text() {
  static const std::string all = [] {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(prelude_folder()))
      if (entry.path().extension() == ".h") files[entry.path().filename()] = read(entry.path());
    std::string text;
    for (const auto& [name, content] : files) text += name + "\n" + content;
    return text;
  }();
  return all;
}

fs::path cache_folder() {
  fs::path otherwise = fs::temp_directory_path() / ("varve-cuda-emulator-" + std::to_string(getuid()));
  fs::path folder = environment("VARVE_EMULATOR_CACHE", otherwise);
  if (fs::create_directories(folder)) fs::permissions(folder, fs::perms::owner_all);
  return folder;
}

// Two runs of FNV-1a side by side: 128 bits, as it must never take one kernel for another.
class Hash {
 public:
  void add(const std::string& text) {
    for (unsigned char c : text + '\0') {
      a_ = (a_ ^ c) * 0x100000001B3ull;
      b_ = (b_ ^ c) * 0x9E3779B97F4A7C15ull + (b_ >> 29);
    }
  }
  std::string text() const {
    char digits[33];
    std::snprintf(digits, sizeof(digits), "%016llx%016llx", a_, b_);
    return digits;
  }

 private:
  unsigned long long a_ = 0xCBF29CE484222325ull, b_ = 0x84222325CBF29CE4ull;
};

std::vector<std::string> command() {
  std::vector<std::string> words = {
      environment("VARVE_EMULATOR_CXX", VARVE_EMULATOR_COMPILER), "-x", "c++", "-std=c++20", "-O1", "-w", "-pipe",
      // Arithmetic as written; kernels reinterpret memory freely; nothing is exported but the table.
      "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-fwrapv",
      "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables", "-fno-threadsafe-statics",
      "-fno-stack-protector", "-fvisibility=hidden", "-fno-gnu-unique", "-fdiagnostics-color=never", "-shared", "-fPIC",
      "-nostdlib"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) words.push_back("-march=x86-64-v3");
#if defined(__SANITIZE_ADDRESS__)
  words.push_back("-fsanitize=address");
#endif
  std::istringstream extra(environment("VARVE_EMULATOR_CXXFLAGS", ""));
  for (std::string word; extra >> word;) words.push_back(word);
  return words;
}

// Runs a command with its messages going to a file; whether it succeeded.
bool succeeds(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    write(log, "cannot run " + words[0] + ": " + std::generic_category().message(failed));
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The prelude, compiled once for all kernels of a cache: g++ reads prelude.h.gch, or the file beside it where that does
// not suit a kernel's options.
fs::path precompiled_prelude(const std::vector<std::string>& words) {
  Hash hash;
  for (const std::string& word : words) hash.add(word);
  hash.add(prelude_text());
  const fs::path folder = cache_folder() / ("prelude-" + hash.text());
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (fs::exists(folder)) return folder / "prelude.h";

  const fs::path made = folder.string() + "." + std::to_string(getpid());
  fs::create_directories(made);
  write(made / "prelude.h", "#include \"" + (prelude_folder() / "prelude.h").string() + "\"\n");
  std::vector<std::string> all = words;
  all.insert(all.end(), {"-x", "c++-header", "-o", made / "prelude.h.gch", made / "prelude.h"});
  succeeds(all, made / "log");
  std::error_code error;
  fs::rename(made, folder, error);
  if (error) fs::remove_all(made);  // another process was faster
  return folder / "prelude.h";
}

std::string key(const CompileJob& job, const std::vector<std::string>& words) {
  Hash hash;
  for (const std::string& word : words) hash.add(word);
  for (const std::string& option : job.options) hash.add(option);
  hash.add(prelude_text());
  hash.add(job.source);
  return hash.text();
}

}  // namespace

Compiled compile(const CompileJob& job) {
  static std::atomic<unsigned> serial = 0;
  std::vector<std::string> words = command();
  fs::path stem = cache_folder() / key(job, words);
  fs::path library = stem.string() + ".so";
  if (fs::exists(library)) return {library, ""};

  // Written under names of our own and renamed when whole: other processes may be at the same kernel.
  std::string own = stem.string() + "." + std::to_string(getpid()) + "." + std::to_string(serial++);
  fs::path source = own + ".cpp", made = own + ".so", log = own + ".log";
  write(source, job.source);
  words.insert(words.end(), {"-include", precompiled_prelude(words)});
  words.insert(words.end(), job.options.begin(), job.options.end());
  words.insert(words.end(), {"-o", made, source, "-lm", "-lc"});
  bool compiled = succeeds(words, log);
  Compiled result{compiled ? library.string() : "", compiled ? "" : read(log)};
  std::error_code ignored;
  if (compiled) {
    fs::rename(source, stem.string() + ".cpp", ignored);  // for debuggers and the curious
    fs::rename(made, library);
  }
  fs::remove(source, ignored);
  fs::remove(log, ignored);
  return result;
}

}  // namespace varve::emulator
