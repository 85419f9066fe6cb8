// `varve export`: the weights of a run for others.
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "base/text.h"
#include "commands.h"
#include "subject.h"
#include "text.h"
#include "varve/io.h"
#include "varve/train.h"

namespace varve::cli {
namespace {

// NumPy's archive holds what the safetensors file would, under the same names.
void save_as_npz(const nn::Module& model, const std::string& out, const nn::SaveOptions& options) {
  const std::string between = out + ".safetensors.tmp";
  model.save(between, options);
  const Safetensors content = load_safetensors(between);
  std::filesystem::remove(between);
  save_npz(out, {content.tensors.begin(), content.tensors.end()});
}

}  // namespace

int export_weights(const ExportOptions& options) {
  if (!is_run(options.run))
    throw UsageError(cat("'", options.run, "' is not the folder of a run, such as runs/lenet-1."));
  const bool npz = options.out.ends_with(".npz");
  if (!npz && !options.out.ends_with(".safetensors"))
    throw UsageError(cat("'", options.out, "' should end in .safetensors or .npz."));
  if (options.layout != "varve" && options.layout != "pytorch")
    throw UsageError(cat("unknown layout '", options.layout, "'. Known: varve, pytorch."));
  if (options.dtype != "f32" && options.dtype != "f16" && options.dtype != "bf16")
    throw UsageError(cat("unknown dtype '", options.dtype, "'. Known: f32, f16, bf16."));
  const train::TrainedModel run = train::load_run(options.run, options.last);
  const nn::SaveOptions save{.dtype = parse_dtype(options.dtype),
                             .pytorch = options.layout == "pytorch",
                             .metadata = {{"format", "pt"}, {"network", run.config.name}}};
  if (npz)
    save_as_npz(*run.model, options.out, save);
  else
    run.model->save(options.out, save);
  std::cout << options.out << " · " << thousands(run.model->parameter_count()) << " parameters, " << options.dtype
            << ", " << options.layout << " layout · " << human_bytes(std::filesystem::file_size(options.out)) << '\n';
  return kOk;
}

}  // namespace varve::cli
