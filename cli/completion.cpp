// `varve completion`: scripts that teach a shell the commands, their options, networks and settings.
#include <iostream>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "varve/train/config.h"
#include "varve/zoo.h"

namespace varve::cli {
namespace {

std::vector<std::string> command_names(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> networks() {
  std::vector<std::string> names;
  for (const zoo::Entry& entry : zoo::entries()) names.push_back(entry.name);
  return names;
}

std::vector<std::string> settings() {
  std::vector<std::string> names = {"rate="};
  for (const train::ConfigKey& key : train::config_keys()) names.push_back(key.name + "=");
  return names;
}

// The case of each command: its options, and for those that take them networks and settings.
std::string bash_cases(const std::vector<CommandWords>& commands) {
  std::string text;
  for (const CommandWords& command : commands)
    text += cat("    ", command.name, ") words=\"", joined(command.options, " "),
                command.networks ? " $networks $settings" : "", "\" ;;\n");
  return text;
}

constexpr const char* kBash = R"SH(# bash completion of varve:  eval "$(varve completion bash)"
_varve() {
  local networks="@networks"
  local settings="@settings"
  local word="${COMP_WORDS[COMP_CWORD]}" words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "@commands" -- "$word"))
    return
  fi
  case "${COMP_WORDS[1]}" in
@cases  esac
  COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
  case "${COMPREPLY[0]}" in *=) compopt -o nospace ;; esac
}
complete -o filenames -F _varve varve
)SH";

std::string bash(const std::vector<CommandWords>& commands) {
  std::string script = kBash;
  const auto fill = [&](const std::string& mark, const std::string& text) {
    script.replace(script.find(mark), mark.size(), text);
  };
  fill("@networks", joined(networks(), " "));
  fill("@settings", joined(settings(), " "));
  fill("@commands", joined(command_names(commands), " "));
  fill("@cases", bash_cases(commands));
  return script;
}

std::string zsh(const std::vector<CommandWords>& commands) {
  return cat(
      "#compdef varve\n# zsh completion of varve:  eval \"$(varve completion zsh)\"\n"
      "autoload -U +X bashcompinit && bashcompinit\n",
      bash(commands));
}

std::string fish(const std::vector<CommandWords>& commands) {
  std::string text =
      cat("# fish completion of varve:  varve completion fish | source\n",
          "complete -c varve -n __fish_use_subcommand -a '", joined(command_names(commands), " "), "'\n");
  for (const CommandWords& command : commands) {
    const std::string when = cat("complete -c varve -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const std::string& option : command.options) text += cat(when, " -l ", option.substr(2), "\n");
    if (command.networks)
      text += cat(when, " -a '", joined(networks(), " "), "'\n", when, " -a '", joined(settings(), " "), "'\n");
  }
  return text;
}

int run_completion(const std::string& shell, const std::vector<CommandWords>& commands) {
  if (shell == "bash")
    std::cout << bash(commands);
  else if (shell == "zsh")
    std::cout << zsh(commands);
  else if (shell == "fish")
    std::cout << fish(commands);
  else
    throw UsageError(cat("unknown shell '", shell, "'. Known: bash, zsh, fish."));
  return kOk;
}

}  // namespace

void add_completion(Menu& menu) {
  auto shell = std::make_shared<std::string>();
  menu.command({.name = "completion",
                .what = "Print a script that completes varve's words in a shell",
                .examples = "Example: eval \"$(varve completion bash)\"     in ~/.bashrc"},
               [shell, menu] { return run_completion(*shell, menu.words()); })
      .option("shell", *shell, "bash, zsh or fish", {.required = true});
}

}  // namespace varve::cli
