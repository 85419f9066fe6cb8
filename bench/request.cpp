#include "bench/request.h"

#include "base/text.h"
#include "varve/io.h"

namespace varve::bench {
namespace {

// A field that may be left out or null.
template <class T>
void read(const nlohmann::json& json, const char* field, T& value) {
  const auto it = json.find(field);
  if (it != json.end() && !it->is_null()) value = it->get<T>();
}

}  // namespace

nlohmann::ordered_json request_json(const Request& r) {
  nlohmann::ordered_json workload = workload_json(find_workload(r.workload));
  if (r.rate > 0) workload["optimizer"]["rate"] = r.rate;
  return {{"schema", kSchema},
          {"task", r.task},
          {"framework", r.framework},
          {"mode", r.mode},
          {"workload", workload},
          {"batch", r.batch},
          {"threads", r.threads},
          {"precision", r.precision},
          {"device", r.device},
          {"seed", r.seed},
          {"warmup", {{"steps", r.warmup_steps}, {"seconds", r.warmup_seconds}}},
          {"samples", r.samples},
          {"min_seconds", r.min_seconds},
          {"max_seconds", r.max_seconds},
          {"weights", or_null(r.weights)},
          {"batches", or_null(r.batches)},
          {"dropout", r.dropout},
          {"data", or_null(r.data)},
          {"epochs", r.epochs},
          {"target", r.target > 0 ? nlohmann::ordered_json(r.target) : nlohmann::ordered_json(nullptr)},
          {"ranks", r.ranks},
          {"rank", r.rank},
          {"meeting", or_null(r.meeting)},
          {"compress", r.compress},
          {"sync_batch_norm", r.sync_batch_norm},
          {"result", r.result}};
}

Request load_request(const std::string& path) {
  try {
    const nlohmann::json json = nlohmann::json::parse(load_text(path));
    Request r;
    r.task = json.at("task");
    r.workload = json.at("workload").at("name");
    if (json["workload"].contains("optimizer")) read(json["workload"]["optimizer"], "rate", r.rate);
    r.batch = json.at("batch");
    r.threads = json.at("threads");
    r.result = json.at("result");
    read(json, "framework", r.framework), read(json, "mode", r.mode);
    read(json, "precision", r.precision), read(json, "device", r.device);
    read(json, "seed", r.seed), read(json, "samples", r.samples), read(json, "dropout", r.dropout);
    read(json, "min_seconds", r.min_seconds), read(json, "max_seconds", r.max_seconds);
    read(json, "weights", r.weights), read(json, "batches", r.batches), read(json, "data", r.data);
    read(json, "epochs", r.epochs), read(json, "target", r.target);
    read(json, "ranks", r.ranks), read(json, "rank", r.rank), read(json, "meeting", r.meeting);
    read(json, "compress", r.compress), read(json, "sync_batch_norm", r.sync_batch_norm);
    if (json.contains("warmup"))
      read(json["warmup"], "steps", r.warmup_steps), read(json["warmup"], "seconds", r.warmup_seconds);
    if (r.batch < 1) throw Error(cat("batch: expected 1 or more, got ", r.batch, "."));
    if (r.ranks < 1 || r.batch % r.ranks != 0)
      throw Error(cat("batch: expected one that ", r.ranks, " ranks can share equally, got ", r.batch, "."));
    return r;
  } catch (const nlohmann::json::exception& e) {
    throw Error(cat("request ", path, ": ", e.what()));
  }
}

}  // namespace varve::bench
