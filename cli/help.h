// The texts below the options in --help: examples that can be copied.
#pragma once

namespace varve::cli {

inline constexpr const char* kExamples = R"(Examples:
  varve demo                          train a first network on digits that it draws itself
  varve zoo                           networks with names;  varve datasets: what to train them on
  varve train fnn-mnist epochs=3      train one of them; settings are key=value
  varve train net.toml                train your own network file (docs/network-files.md)
  varve predict runs/lenet5-1 7.png   ask a trained network
  varve summary resnet50 batch=16     layers, parameters, operations, memory
  varve schema conv2d                 what a layer of a network file accepts
  varve doctor                        is everything in order here?
  varve ops conv pool                 operators with "conv" or "pool" in name or family
  varve bench ops matmul threads=1    time some operators on one thread

Settings may be written threads=1, --threads=1 or, for options, --threads 1.
Exit codes: 0 well, 1 something failed, 2 bad usage.)";

inline constexpr const char* kTrainHelp =
    R"(Settings are the keys of a file's [train] table; `varve schema` lists them. Values are TOML, bare words are strings,
and dots reach inside: optimizer.beta1=0.95, data.words=10000. rate=… is optimizer.rate=….

Examples:
  varve train lenet5                              digits drawn by the program, nothing to download
  varve train lenet.toml epochs=3 rate=1e-3       a network file
  varve train cnn-cifar schedule=cosine augment=flip,crop batch=256
  varve train resnet20 data=folder:photos         one folder of pictures for each class
  varve train vgg16-cifar weights=old.safetensors freeze='features.*'
  varve train runs/lenet5-1 --resume              go on where that run was stopped
  varve train runs/lenet5-1 seed=2                the same again, with another seed
  varve train fnn-mnist --json | jq .test_accuracy

The run's folder holds the weights, the settings, all figures, and index.html to look at.)";

inline constexpr const char* kEvalHelp = R"(Examples:
  varve eval runs/lenet5-1                        the run's own test data
  varve eval runs/lenet5-1 data=mnist --classes   other data, class by class
  varve eval resnet20 weights=resnet20.safetensors --json)";

inline constexpr const char* kPredictHelp =
    R"(Pictures (JPEG, PNG) are resized to what the network takes. Text may be a file or the words themselves.

Examples:
  varve predict runs/lenet5-1 digit.png
  varve predict runs/cnn-cifar-1 *.jpg top=1
  varve predict runs/lstm-imdb-1 "A film to remember, for the wrong reasons.")";

inline constexpr const char* kSummaryHelp = R"(Examples:
  varve summary resnet50 batch=16
  varve summary lenet.toml
  varve summary runs/lenet5-1)";

inline constexpr const char* kRateHelp =
    R"(Own settings: from=1e-7 to=10 steps=100. All others are those of `varve train`. Weights are not kept.

Examples:
  varve lr-find fnn-mnist
  varve lr-find net.toml batch=256 from=1e-5 to=1 --out rates.html)";

inline constexpr const char* kExportHelp = R"(Examples:
  varve export runs/lenet5-1 lenet5.safetensors
  varve export runs/lenet5-1 lenet5.safetensors layout=pytorch    torch: load_state_dict(load_file(…))
  varve export runs/lenet5-1 lenet5.npz dtype=f16)";

inline constexpr const char* kDatasetsHelp = R"(Examples:
  varve datasets                           all of them, and which are here
  varve datasets digits --sheet out.png    a sheet of samples to look at
  varve datasets imdb words=10000          sizes with an option set
  varve datasets mnist --get               download it)";

}  // namespace varve::cli
