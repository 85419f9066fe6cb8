#include "bench/together.h"

#include <algorithm>
#include <thread>

#include "base/meeting.h"
#include "base/text.h"
#include "bench/scratch.h"
#include "varve/io.h"

namespace varve::bench {
namespace {

constexpr int kMeetingPort = 29417;  // of a network namespace of ours, where nobody else listens

// Who is asked: its request, its environment, where its answer goes.
struct Seat {
  Request request;
  Command command;
};

double mean_of(const std::vector<nlohmann::json>& answers, const char* field) {
  double sum = 0;
  for (const nlohmann::json& answer : answers) sum += answer.value(field, 0.0);
  return sum / static_cast<double>(answers.size());
}

nlohmann::json merged_samples(const std::vector<nlohmann::json>& answers, bool connected) {
  std::vector<double> samples = answers[0].at("samples_ms");
  for (std::size_t r = 1; r < answers.size(); ++r) {
    const std::vector<double> others = answers[r].at("samples_ms");
    if (!connected)
      samples.insert(samples.end(), others.begin(), others.end());
    else
      for (std::size_t i = 0; i < std::min(samples.size(), others.size()); ++i)
        samples[i] = std::max(samples[i], others[i]);
  }
  return samples;
}

nlohmann::json merged_wire(const std::vector<nlohmann::json>& answers) {
  std::vector<nlohmann::json> wires;
  for (const nlohmann::json& answer : answers) wires.push_back(answer.at("wire"));
  nlohmann::json wire = wires[0];
  for (const char* field : {"busy_ms", "waited_ms", "bytes", "messages"}) wire[field] = mean_of(wires, field);
  return wire;
}

std::map<std::string, std::string> environment_of(const Together& together, int rank, int threads,
                                                  const std::string& meeting, const Scratch& folder) {
  const int hosts = together.hosts ? together.hosts->count() : 1, local = together.ranks / hosts;
  std::map<std::string, std::string> variables = {
      {"VARVE_RANK", cat(rank)},         {"VARVE_RANKS", cat(together.ranks)}, {"VARVE_LOCAL_RANK", cat(rank % local)},
      {"VARVE_LOCAL_RANKS", cat(local)}, {"VARVE_THREADS", cat(threads)},      {"VARVE_MEETING", meeting},
      {"VARVE_JOB_KEY", folder.path("")}};
  if (together.hosts && rank == 0) variables["VARVE_HOSTS_MEETING"] = "1";
  variables["GLOO_SOCKET_IFNAME"] = together.hosts ? Hosts::kInterface : "lo";
  return variables;
}

std::vector<int> processors_of(int rank, int ranks, int threads) {
  const std::vector<int> all = spread_processors(ranks * threads);
  if (static_cast<int>(all.size()) < ranks * threads)
    throw Error(cat(ranks, " ranks of ", threads, threads == 1 ? " thread" : " threads", " need ", ranks * threads,
                    " processors; there are ", all.size(), "."));
  return {all.begin() + rank * threads, all.begin() + (rank + 1) * threads};
}

Seat seat_of(const Framework& framework, const Request& asked, const Together& together, int rank,
             const std::string& meeting, const Scratch& folder) {
  Seat seat{asked, {}};
  seat.request.framework = framework.name;
  seat.request.ranks = together.connected ? together.ranks : 1;
  seat.request.rank = together.connected ? rank : 0;
  if (together.connected) seat.request.meeting = folder.path("meeting");
  seat.request.result = folder.path(cat("result-", rank, ".json"));
  const std::string path = folder.path(cat("request-", rank, ".json"));
  save_text(path, request_json(seat.request).dump());
  seat.command = worker_command(framework, seat.request, path);
  seat.command.processors = processors_of(rank, together.ranks, asked.threads);
  if (!together.connected || together.ranks == 1) return seat;
  for (const auto& [name, value] : environment_of(together, rank, asked.threads, meeting, folder))
    seat.command.environment[name] = value;
  if (together.hosts)
    seat.command = together.hosts->inside(rank * together.hosts->count() / together.ranks, seat.command);
  return seat;
}

nlohmann::json unable(const std::string& reason) {
  return {{"schema", kSchema}, {"status", "unsupported"}, {"reason", reason}};
}

}  // namespace

nlohmann::json merged(const std::vector<nlohmann::json>& answers, bool connected) {
  for (const nlohmann::json& answer : answers)
    if (answer.value("status", "failed") != "ok") return answer;
  nlohmann::json all = answers[0];
  std::int64_t peak = 0;
  double cpu = 0;
  for (const nlohmann::json& answer : answers) {
    peak = std::max(peak, answer.value("peak_bytes", std::int64_t{0}));
    cpu += answer.value("cpu_seconds", 0.0);
  }
  all["peak_bytes"] = peak;
  all["cpu_seconds"] = cpu / static_cast<double>(answers.size());
  all["wall_seconds"] = mean_of(answers, "wall_seconds");
  if (all.contains("samples_ms")) all["samples_ms"] = merged_samples(answers, connected);
  for (const nlohmann::json& answer : answers)  // each says the mean over ranks
    if (answer.contains("losses") && answer["losses"] != answers[0]["losses"])
      return {{"schema", kSchema}, {"status", "failed"}, {"reason", "the ranks do not agree on their mean losses"}};
  if (all.contains("wire")) all["wire"] = merged_wire(answers);
  return all;
}

Answer ask_together(const Framework& framework, const Request& request, const Together& together,
                    double limit_seconds) {
  const Scratch folder;
  std::unique_ptr<MeetingServer> server;
  std::string meeting = together.hosts ? cat(together.hosts->address(0), ":", kMeetingPort) : "";
  if (together.connected && together.ranks > 1 && !together.hosts) {
    server = std::make_unique<MeetingServer>("127.0.0.1", 0, MeetingOptions{together.ranks, folder.path(""), 60});
    meeting = cat("127.0.0.1:", server->port());
  }
  std::vector<Seat> seats;
  try {
    for (int rank = 0; rank < together.ranks; ++rank)
      seats.push_back(seat_of(framework, request, together, rank, meeting, folder));
  } catch (const Error& e) {
    return {unable(e.what())};
  }
  std::vector<Finished> finished(seats.size());
  std::vector<std::thread> waiting;
  for (std::size_t i = 0; i < seats.size(); ++i)
    waiting.emplace_back([&, i] {
      seats[i].command.limit_seconds = limit_seconds;
      finished[i] = run(seats[i].command);
    });
  for (std::thread& each : waiting) each.join();
  std::vector<nlohmann::json> answers;
  double seconds = 0;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    answers.push_back(read_answer(finished[i], seats[i].request));
    seconds = std::max(seconds, finished[i].seconds);
  }
  return {merged(answers, together.connected && together.ranks > 1), seconds};
}

}  // namespace varve::bench
