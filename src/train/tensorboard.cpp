// The callback that writes what TensorBoard shows.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "train/tensorboard_event.h"
#include "varve/error.h"
#include "varve/train.h"

namespace varve::train {
namespace {

constexpr std::int64_t kEverySteps = 20;  // the loss of a step; every epoch has all the rest

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && *name ? name : "localhost";
}

// "val_loss" stands beside "loss" in one group of TensorBoard's.
std::string tag_of(const std::string& value) {
  return value.starts_with("val_") ? value.substr(4) + "/validation" : value + "/training";
}

class TensorBoard : public Callback {
 public:
  explicit TensorBoard(std::string folder) : folder_(std::move(folder)) {}

  void begin(Session& session) override {
    const std::string& folder = folder_.empty() ? session.run() : folder_;
    if (folder.empty())
      throw Error("tensorboard: name a folder for the event files, or give the run one (FitOptions::run).");
    open(folder);
    write(version_event(now()));
    // Steps after the checkpoint that a run resumes from are done again.
    if (session.step() > 0) write(restart_event(now(), session.step() + 1));
    flush();
  }

  void step_end(Session& session) override {
    if (session.step() % kEverySteps == 0)
      write(scalar_event({.wall_time = now(), .step = session.step(), .values = {{"loss/step", session.loss()}}}));
  }

  void epoch_end(Session& session) override {
    if (session.history().epochs.empty()) return;
    const Epoch& epoch = session.history().epochs.back();
    ScalarEvent event = {.wall_time = now(), .step = epoch.epoch};
    for (const auto& [name, value] : epoch.values) event.values.emplace_back(tag_of(name), value);
    event.values.emplace_back("rate", epoch.rate);
    event.values.emplace_back("seconds", epoch.seconds);
    write(scalar_event(event));
    flush();
  }

  void end(Session&) override {
    flush();
    file_.reset();
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  // A file of its own for each sitting, also for two in the same second.
  void open(const std::string& folder) {
    std::error_code ignored;  // fopen will say it
    std::filesystem::create_directories(folder, ignored);
    const std::string base =
        folder + "/events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now())) + '.' + host();
    path_ = base;
    for (int n = 1; n < 1000 && std::filesystem::exists(path_, ignored); ++n) path_ = base + '.' + std::to_string(n);
    file_.reset(std::fopen(path_.c_str(), "wbx"));
    if (!file_) throw Error("tensorboard: cannot write " + path_ + ".");
  }

  void write(const std::string& event) {
    if (!file_) throw Error("tensorboard: a step came before begin().");
    const std::string record = framed_record(event);
    if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size())
      throw Error("tensorboard: writing to " + path_ + " failed; is the disk full?");
  }

  void flush() {
    if (file_ && std::fflush(file_.get()) != 0)
      throw Error("tensorboard: writing to " + path_ + " failed; is the disk full?");
  }

  std::string folder_, path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace

CallbackPtr tensorboard(const std::string& folder) { return std::make_shared<TensorBoard>(folder); }

}  // namespace varve::train
