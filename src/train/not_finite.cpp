// A loss that is NaN or infinite: which layer made it so.
#include <cmath>
#include <filesystem>

#include "train/run_folder.h"
#include "train/trainer.h"
#include "varve/distributed.h"
#include "varve/ops.h"

namespace varve::train {

// By the time the loss is read, the update has spread the damage over all weights. A run that has a checkpoint goes
// back to it and repeats the same batches, looking at every layer: the same bits, so the same end.
std::string Trainer::find_layer() {
  if (distributed::size() > 1) return "";  // the others have ended
  if (options_.check_layers || options_.run.empty() || !std::filesystem::exists(last_checkpoint(options_.run)))
    return "";
  const int epoch = at_.epoch;
  const std::int64_t end = at_.step;
  at_ = load_checkpoint(last_checkpoint(options_.run), kept_);
  if (at_.epoch != epoch || at_.step >= end) return "";
  progress_->note("the loss is not finite: repeating " + std::to_string(end - at_.step) +
                  " steps to find the layer that made it so");
  TrainStep careful(parts(true));
  Totals totals(objective_->metrics());
  std::string found;
  data::Loader batches = loader();
  try {
    if (at_.step == 0) model_.reset_state();
    for (const data::Batch& batch : batches) {
      if (at_.step >= end) break;
      train_batch(careful, batch, totals);
    }
    totals.settle();  // a device may not have come to the last of them yet
  } catch (const Error& error) {
    found = error.what();
  }
  load_checkpoint(last_checkpoint(options_.run), kept_);  // the last weights that can be trusted
  return found;
}

void Trainer::report_not_finite() {
  std::string message = "fit: the loss is " + std::string(std::isnan(loss_) ? "NaN" : "infinite") + " at epoch " +
                        std::to_string(epoch()) + ", step " + std::to_string(at_.step) + ".";
  if (const std::string found = find_layer(); !found.empty())
    message += " " + found + " The weights are back at the last checkpoint.";
  else if (options_.run.empty())
    message += " Give the run a folder, or set check_layers, to learn which layer it begins in.";
  throw Error(message + " A smaller rate, clip_norm, or data without such values usually helps.");
}

}  // namespace varve::train
