// `varve export`: the weights of a run for others.
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/subject.h"
#include "cli/text.h"
#include "train/model_card.h"
#include "varve/io.h"
#include "varve/train.h"

namespace varve::cli {
namespace {

struct ExportOptions {
  std::string run, out;
  std::string dtype = "f32", layout = "varve";
  bool last = false;
};

constexpr const char* kExportExamples = R"(Examples:
  varve export runs/lenet5-1 lenet5.safetensors
  varve export runs/lenet5-1 lenet5.safetensors layout=pytorch    torch: load_state_dict(load_file(…))
  varve export runs/lenet5-1 lenet5.npz dtype=f16)";

// NumPy's archive holds what the safetensors file would, under the same names.
void save_as_npz(const nn::Module& model, const std::string& out, const nn::SaveOptions& options) {
  const std::string between = out + ".safetensors.tmp";
  model.save(between, options);
  const Safetensors content = load_safetensors(between);
  std::filesystem::remove(between);
  save_npz(out, {content.tensors.begin(), content.tensors.end()});
}

int export_weights(const ExportOptions& options) {
  if (!is_run(options.run))
    throw UsageError(cat("'", options.run, "' is not the folder of a run, such as runs/lenet5-1."));
  const bool npz = options.out.ends_with(".npz");
  if (!npz && !options.out.ends_with(".safetensors"))
    throw UsageError(cat("'", options.out, "' should end in .safetensors or .npz."));
  if (options.layout != "varve" && options.layout != "pytorch")
    throw UsageError(cat("unknown layout '", options.layout, "'. Known: varve, pytorch."));
  if (options.dtype != "f32" && options.dtype != "f16" && options.dtype != "bf16")
    throw UsageError(cat("unknown dtype '", options.dtype, "'. Known: f32, f16, bf16."));
  const train::TrainedModel run = train::load_run(options.run, options.last);
  const train::ModelCard card{.input = run.input,
                              .dtype = run.dtype,
                              .classes = run.classes,
                              .words = run.vocabulary ? run.vocabulary->words() : std::vector<std::string>{},
                              .table = run.table,
                              .sound = run.sound,
                              .target_classes = run.target_classes};
  const nn::SaveOptions save{.dtype = parse_dtype(options.dtype),
                             .pytorch = options.layout == "pytorch",
                             .metadata = {{"format", "pt"},
                                          {"network", run.config.name},
                                          {"data", run.config.data},
                                          {train::kCardKey, train::card_text(card)}}};
  if (npz)
    save_as_npz(*run.model, options.out, save);
  else
    run.model->save(options.out, save);
  std::cout << options.out << " · " << thousands(run.model->parameter_count()) << " parameters, " << options.dtype
            << ", " << options.layout << " layout · " << human_bytes(std::filesystem::file_size(options.out)) << '\n';
  return kOk;
}

}  // namespace

void add_export(Menu& menu) {
  auto options = std::make_shared<ExportOptions>();
  menu.command({.name = "export", .what = "Write a run's weights for other programs", .examples = kExportExamples},
               [options] { return export_weights(*options); })
      .option("run", options->run, "the run's folder", {.required = true})
      .option("out", options->out, "a file that ends in .safetensors or .npz", {.required = true})
      .option("--dtype", options->dtype, "f32, f16 or bf16")
      .option("--layout", options->layout, "of the weights: varve or pytorch")
      .flag("--last", options->last, "the last weights in place of the best");
}

}  // namespace varve::cli
