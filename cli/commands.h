// The commands of `varve`: each takes its options and returns the exit code. Failures are exceptions.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace varve::cli {

constexpr int kOk = 0, kFailure = 1, kBadUsage = 2;

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

struct TrainOptions {
  Subject subject;
  bool resume = false;
  bool json = false;
  bool quiet = false;
};
int train(const TrainOptions& options);

struct EvalOptions {
  Subject subject;
  bool json = false;
  bool classes = false;  // a line for each class
};
int eval(const EvalOptions& options);

struct PredictOptions {
  std::string run;
  std::vector<std::string> files;
  int top = 3;
  bool json = false;
};
int predict(const PredictOptions& options);

struct SummaryOptions {
  Subject subject;
};
int summary(const SummaryOptions& options);

struct DatasetsOptions {
  std::string name;
  std::vector<std::string> settings;  // options of the data set
  std::string sheet;                  // a PNG of samples
  bool get = false;
  bool json = false;
};
int datasets(const DatasetsOptions& options);

struct ZooOptions {
  std::vector<std::string> filters;
  bool json = false;
};
int zoo(const ZooOptions& options);

struct RateOptions {
  Subject subject;
  std::string out = "lr-find.svg";
};
int find_rate(const RateOptions& options);

struct ExportOptions {
  std::string run, out;
  std::string dtype = "f32", layout = "varve";
  bool last = false;
};
int export_weights(const ExportOptions& options);

struct SchemaOptions {
  std::vector<std::string> filters;
  bool markdown = false;
};
int schema(const SchemaOptions& options);

struct CompletionOptions {
  std::string shell;
};
struct CommandWords {  // as the parser knows them
  std::string name;
  std::vector<std::string> options;  // with their dashes
  bool configured = false;           // takes networks and settings
};
int completion(const CompletionOptions& options, const std::vector<CommandWords>& commands);

int doctor();

struct OpsOptions {
  std::vector<std::string> filters;
  bool json = false;
  bool markdown = false;
};
int ops(const OpsOptions& options);

struct BenchOptions {
  std::vector<std::string> filters;
  bool json = false;
  bool list = false;
  std::string device = "cpu";
  int threads = 0;
};
int bench_ops(const BenchOptions& options);

struct InfoOptions {
  bool json = false;
};
int info(const InfoOptions& options);

// Makes the device and the number of threads current; throws UsageError with the nearest known device.
void use_device(const std::string& device, int threads);

}  // namespace varve::cli
