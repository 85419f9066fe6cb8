// `varve launch`: several ranks of one command.
#include <filesystem>

#include "base/text.h"
#include "cli/menu.h"
#include "varve/distributed.h"

namespace varve::cli {
namespace {

constexpr const char* kLaunchExamples =
    R"(COMMAND is one of varve's own, such as `train`, or any program. Ranks find each other through the environment
(VARVE_RANK, VARVE_RANKS, VARVE_MEETING …; docs/ranks.md). Jobs that mpirun, srun or torchrun start need no launch.

Examples:
  varve launch -n 4 train cnn-mnist
  varve launch -n 4 --restarts 3 train resnet20 data=cifar10
  varve launch -n 8 --hosts a,b --address 10.0.0.1 train resnet50 data=folder:photos
  varve launch -n 2 python train.py)";

struct Launching {
  distributed::LaunchOptions options{.ranks = 2};
  std::vector<std::string> words;
  std::string hosts;
  bool plain = false;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0, end = 0; at <= list.size(); at = end + 1) {
    end = std::min(list.find(',', at), list.size());
    if (end > at) parts.push_back(list.substr(at, end - at));
  }
  return parts;
}

bool is_own_command(const std::vector<CommandWords>& own, const std::string& word) {
  for (const CommandWords& command : own)
    if (command.name == word) return true;
  return false;
}

}  // namespace

void add_launch(Menu& menu) {
  auto job = std::make_shared<Launching>();
  menu.starter_command({.name = "launch",
                        .what = "Start several processes that train one model together",
                        .examples = kLaunchExamples},
                       job->words,
                       [job, menu] {
                         if (job->words.empty())
                           throw UsageError(
                               "varve launch needs a command to start, such as: varve launch -n 4 train lenet5. See: "
                               "varve launch --help");
                         job->options.command = job->words;
                         if (is_own_command(menu.words(), job->words.front()))
                           job->options.command.insert(job->options.command.begin(),
                                                       std::filesystem::read_symlink("/proc/self/exe").string());
                         job->options.hosts = split(job->hosts);
                         job->options.labels = !job->plain;
                         return distributed::launch(job->options);
                       })
      .option("-n,--ranks", job->options.ranks, "processes, on each host", {.least = 1, .most = 4096})
      .option("--hosts", job->hosts, "other machines, with commas; reached by ssh, or by VARVE_LAUNCH_AGENT")
      .option("--address", job->options.address, "of this machine, for the ranks on other hosts")
      .option("--threads", job->options.threads, "of each process; unless given, the cores divided among them",
              {.least = 0, .most = 1024})
      .option("--restarts", job->options.restarts, "how often to start again from the last checkpoint when a rank dies",
              {.least = 0, .most = 1000000})
      .flag("--elastic", job->options.elastic,
            "start again with one process fewer, or without the host whose rank has died")
      .flag("--no-labels", job->plain, "no rank's number before its lines");
}

}  // namespace varve::cli
