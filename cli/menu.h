// The words that `varve` understands. A command's file adds it, with its options and what it does; the table of
// commands is in commands.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace varve::cli {

constexpr int kOk = 0, kFailure = 1, kBadUsage = 2;  // exit codes
constexpr int kSignal = 128;                         // plus the number of a signal, as shells count

// The user asked for something that does not exist: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A network file, a name of the zoo or a run's folder, and key=value settings on top of its configuration.
struct Subject {
  std::string what;
  std::vector<std::string> settings;
};

// What the value of an option must be.
struct Accepts {
  bool required = false;
  double least = -std::numeric_limits<double>::infinity();  // of numbers
  double most = std::numeric_limits<double>::infinity();
  std::vector<std::string> words = {};  // not empty: a list with commas, of these
};

// A command's options. A name with dashes is an option, one without is an argument by its place. Values are written
// to `to`, which must live as long as the command's function. A value that is set before is the one that --help shows.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  Command& flag(const std::string& name, bool& to, const std::string& doc);
  Command& option(const std::string& name, std::string& to, const std::string& doc, const Accepts& accepts = {});
  Command& option(const std::string& name, std::vector<std::string>& to, const std::string& doc,
                  const Accepts& accepts = {});
  Command& option(const std::string& name, int& to, const std::string& doc, const Accepts& accepts = {});
  Command& option(const std::string& name, std::int64_t& to, const std::string& doc, const Accepts& accepts = {});
  Command& option(const std::string& name, double& to, const std::string& doc, const Accepts& accepts = {});
  Command& exclusive(const std::string& one, const std::string& other);  // two options that do not go together
  Command& hide();                                                       // from --help

 private:
  CLI::App* app_;
};

// What a command is called, what it does, and examples for the end of its --help.
struct CommandText {
  std::string name, what, examples = "";
  bool takes_names = false;  // name=value words that are no options, but for those that look like a mistyped one
};

struct CommandWords {  // for scripts that complete them
  std::string name;
  std::vector<std::string> options;  // with their dashes
  bool networks = false;             // takes a network and settings
};

class Menu {
 public:
  using Run = std::function<int()>;  // returns the exit code; failures are exceptions
  using RunSubject = std::function<int(const Subject&)>;
  struct State;
  Menu(CLI::App& app, State& state) : app_(&app), state_(&state) {}

  Command command(const CommandText& text, Run run) const;
  // A command about a network, with key=value settings.
  Command network_command(const CommandText& text, RunSubject run) const;
  // A command with key=value settings among its words: --epochs=3 is epochs=3 there.
  Command settings_command(const CommandText& text, Run run) const;
  // Commands below a command, as `varve bench ops`. Alone it prints its help.
  Menu submenu(const CommandText& text) const;

  // A command that starts another one: what follows its own options is not looked at, and goes to `rest`.
  Command starter_command(const CommandText& text, std::vector<std::string>& rest, Run run) const;
  // A command that is a program of its own, beside this one: it is started with the same words.
  void program(const CommandText& text, const std::string& file) const;

  const std::string& line() const;          // all words, as the user wrote them
  std::vector<CommandWords> words() const;  // of all commands, when all are added

 private:
  CLI::App* app_;
  State* state_;
};

using AddCommand = void(Menu&);
AddCommand add_commands;  // all of a program: commands.cpp for varve, bench/bench.cpp for varve-bench

// Understands the words after the program's name and runs the command they ask for. Returns the exit code.
int run(std::vector<std::string> words);

}  // namespace varve::cli
