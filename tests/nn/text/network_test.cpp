// Networks as text: what they become, and what a slip in one is answered with.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "varve/io.h"
#include "varve/nn.h"
#include "varve/zoo.h"

namespace varve::nn {
namespace {

const std::string kExamples = VARVE_TESTS_DIR "/../examples/networks/";

std::int64_t parameters(TextNetwork network) {
  network.network.build(network.input, {.dtype = network.dtype});
  return network.network.parameter_count();
}

std::string error_of(const std::string& text) {
  try {
    network_from_toml(text, "net.toml");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

Shape output_of(TextNetwork network) {
  Shape batch = {2};
  for (const std::int64_t size : network.input) batch.push_back(size);
  return network.network(zeros(batch, network.dtype)).shape();
}

TEST(NetworkFile, ExamplesHaveTheParametersOfTheZoo) {
  EXPECT_EQ(parameters(load_network(kExamples + "lenet.toml")), zoo::find("lenet5").parameters);
  EXPECT_EQ(parameters(load_network(kExamples + "alexnet.toml")), 62378344);
  EXPECT_EQ(parameters(load_network(kExamples + "googlenet.toml")), zoo::find("googlenet").parameters);
  EXPECT_EQ(parameters(load_network(kExamples + "lstm-imdb.toml")), zoo::find("lstm-imdb").parameters);
  // The zoo's ResNet-20 has shortcuts without parameters; projections add 16·32 + 2·32 + 32·64 + 2·64.
  EXPECT_EQ(parameters(load_network(kExamples + "resnet-cifar.toml")), zoo::find("resnet20").parameters + 2752);
  // Tied: 256·128 once, 64 positions, four blocks of 12·128² + 13·128, one norm.
  EXPECT_EQ(parameters(load_network(kExamples + "gpt.toml")),
            256 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128);
}

// Networks of several inputs, of boxes and of masks, which the zoo has not: their pages' commands train them.
TEST(NetworkFile, OtherExamplesAreRead) {
  for (const char* name : {"digit-pairs", "shapes-detector", "shapes-masks"})
    EXPECT_GT(load_network(kExamples + name + ".toml").network.steps().size(), 2u) << name;
}

TEST(NetworkFile, EveryExampleIsTested) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) files += entry.is_regular_file();
  EXPECT_EQ(files, 9) << "add the new example to the test above";
}

TEST(NetworkFile, NameInputAndType) {
  const TextNetwork lenet = load_network(kExamples + "lenet.toml");
  EXPECT_EQ(lenet.name, "lenet");
  EXPECT_EQ(lenet.input, (Shape{28, 28, 1}));
  EXPECT_EQ(lenet.dtype, f32);
  EXPECT_EQ(load_network(kExamples + "lstm-imdb.toml").dtype, i32);
  EXPECT_EQ(network_from_toml("name = \"other\"\ninput = [3]\n[[layer]]\ndense = 2", "x.toml").name, "other");
}

TEST(NetworkFile, BranchesAndBlocks) {
  const std::string text = R"(input = [8, 8, 3]
[block.twice]
parameters = ["out"]
standard = {kernel = 3}
[[block.twice.layer]]
name = "a"
conv2d = {out = "$out", kernel = "$kernel", padding = "same"}
[[block.twice.layer]]
name = "b"
from = "input"
conv2d = {out = "$out", kernel = 1}
[[block.twice.layer]]
concat = ["a", "b"]
[[layer]]
name = "stem"
conv2d = {out = 4, kernel = 1}
[[layer]]
name = "x"
twice = 5
[[layer]]
from = "stem"
name = "y"
twice = {out = 5, kernel = 5}
[[layer]]
multiply = ["x", "y"]
)";
  EXPECT_EQ(output_of(network_from_toml(text, "n")), (Shape{2, 8, 8, 10}));
  EXPECT_EQ(parameters(network_from_toml(text, "n")), 16 + (9 * 20 + 5 + 25) + (25 * 20 + 5 + 25));
  TextNetwork network = network_from_toml(text, "n");
  network.network.build(network.input);
  EXPECT_EQ(network.network.variable("y.a.weight").shape(), (Shape{5, 5, 5, 4}));
}

TEST(NetworkFile, RepeatMakesLayersOfTheirOwn) {
  const std::string text = "input = [6]\n[[layer]]\nrepeat = 3\nname = \"h\"\ndense = 6\n";
  EXPECT_EQ(parameters(network_from_toml(text, "n")), 3 * 42);
}

// Each layer of the table, with the least it needs.
struct Sample {
  const char* layer;
  const char* input;
  const char* value;
  Shape output;
};
const Sample kSamples[] = {
    {"dense", "[5]", "7", {2, 7}},
    {"activation", "[5]", "\"gelu\"", {2, 5}},
    {"dropout", "[5]", "0.25", {2, 5}},
    {"flatten", "[4, 3]", "{}", {2, 12}},
    {"reshape", "[4, 3]", "[2, -1]", {2, 2, 6}},
    {"permute", "[4, 3]", "[2, 1]", {2, 3, 4}},
    {"identity", "[5]", "{}", {2, 5}},
    {"batch_norm", "[5]", "{activation = \"relu\"}", {2, 5}},
    {"layer_norm", "[5]", "{}", {2, 5}},
    {"rms_norm", "[5]", "{epsilon = 1e-4}", {2, 5}},
    {"group_norm", "[4, 4, 6]", "3", {2, 4, 4, 6}},
    {"instance_norm", "[4, 4, 6]", "{}", {2, 4, 4, 6}},
    {"conv2d", "[8, 8, 3]", "{out = 4, kernel = [3, 5], stride = 2, padding = [[1, 0], 2]}", {2, 4, 4, 4}},
    {"depthwise_conv2d", "[8, 8, 3]", "{multiplier = 2, padding = \"same\"}", {2, 8, 8, 6}},
    {"conv1d", "[9, 3]", "{out = 4, kernel = 3}", {2, 9, 4}},
    {"conv2d_transpose", "[4, 4, 3]", "{out = 2, kernel = 2, stride = 2}", {2, 8, 8, 2}},
    {"max_pool2d", "[8, 8, 3]", "2", {2, 4, 4, 3}},
    {"avg_pool2d", "[8, 8, 3]", "{window = 3, stride = 1}", {2, 6, 6, 3}},
    {"global_avg_pool2d", "[8, 8, 3]", "{}", {2, 3}},
    {"global_max_pool2d", "[8, 8, 3]", "{}", {2, 3}},
    {"adaptive_avg_pool2d", "[8, 8, 3]", "2", {2, 2, 2, 3}},
    {"zero_pad2d", "[8, 8, 3]", "[[1, 2], 3]", {2, 11, 14, 3}},
    {"upsample2d", "[4, 4, 3]", "3", {2, 12, 12, 3}},
    {"channel_shuffle", "[4, 4, 6]", "3", {2, 4, 4, 6}},
    {"local_response_norm", "[4, 4, 6]", "{}", {2, 4, 4, 6}},
    {"conv3d",
     "[5, 4, 4, 3]",
     "{out = 4, kernel = [3, 2, 1], stride = [2, 1, 1], padding = [1, 0, 0]}",
     {2, 3, 3, 4, 4}},
    {"max_pool3d", "[4, 4, 4, 3]", "2", {2, 2, 2, 2, 3}},
    {"avg_pool3d", "[5, 4, 4, 3]", "{window = [3, 2, 2], stride = 1, padding = \"same\"}", {2, 5, 4, 4, 3}},
    {"global_avg_pool3d", "[2, 4, 4, 3]", "{}", {2, 3}},
    {"global_max_pool3d", "[2, 4, 4, 3]", "{}", {2, 3}},
    {"adaptive_avg_pool3d", "[4, 6, 6, 3]", "[2, 3, 3]", {2, 2, 3, 3, 3}},
    {"resize", "[4, 6, 3]", "{size = [8, 5], mode = \"cubic\", antialias = true}", {2, 8, 5, 3}},
    {"embedding", "[7]", "{vocabulary = 10, width = 4}", {2, 7, 4}},
    {"tied_dense", "[7]", "\"e\"", {2, 7, 10}},
    {"position_embedding", "[7, 4]", "9", {2, 7, 4}},
    {"rnn", "[7, 4]", "{width = 5, relu = true}", {2, 7, 5}},
    {"lstm", "[7, 4]", "{width = 5, sequences = false, bidirectional = true}", {2, 10}},
    {"gru", "[7, 4]", "5", {2, 7, 5}},
    {"last_step", "[7, 4]", "{}", {2, 4}},
    {"mean_steps", "[7, 4]", "{}", {2, 4}},
    {"max_steps", "[7, 4]", "{}", {2, 4}},
    {"mask_steps", "[7, 4]", "{value = -1}", {2, 7, 4}},
    {"unmask", "[7, 4]", "{}", {2, 7, 4}},
    {"multi_head_attention", "[7, 4]", "2", {2, 7, 4}},
    {"transformer_block", "[7, 4]", "{width = 4, heads = 2}", {2, 7, 4}},
};

TEST(NetworkFile, EveryLayerOfTheTableIsMade) {
  ASSERT_EQ(std::size(kSamples), layer_schemas().size());
  for (std::size_t i = 0; i < std::size(kSamples); ++i) {
    const Sample& s = kSamples[i];
    EXPECT_EQ(s.layer, layer_schemas()[i].name);
    std::string text = std::string("input = ") + s.input + "\n";
    if (s.layer == std::string("tied_dense"))
      text += "[[layer]]\nname = \"e\"\nembedding = {vocabulary = 10, width = 4}\n";
    text += "[[layer]]\n" + std::string(s.layer) + " = " + s.value + "\n";
    EXPECT_EQ(output_of(network_from_toml(text, "n.toml")), s.output) << text;
  }
}

// A value of the wrong kind for any key of any layer is refused, and the message says which key.
TEST(NetworkFile, EveryKeyRefusesAnotherType) {
  int keys = 0;
  for (const LayerSchema& schema : layer_schemas())
    for (const LayerKey& key : schema.keys) {
      std::string settings = key.name + " = [[[]]]";
      for (const LayerKey& other : schema.keys)
        if (other.name != key.name && other.standard.empty())
          settings += ", " + other.name + (other.type == "string" ? " = \"relu\"" : " = 2");
      const std::string message = error_of("input = [4, 4, 4]\n[[layer]]\n" + schema.name + " = {" + settings + "}");
      EXPECT_EQ(message.rfind("net.toml:3: " + schema.name + ": " + key.name, 0), 0u) << settings << "\n" << message;
      ++keys;
    }
  EXPECT_GT(keys, 100);
}

struct Slip {
  const char* text;  // after input = [28, 28, 1]
  const char* answer;
};
TEST(NetworkFile, SlipsAreAnsweredWithFileLineAndTheNearestWord) {
  for (const Slip& s : {
           Slip{"[[layer]]\nconv2d = {out = 6, kernal = 5}",
                "net.toml:3: conv2d: unknown key 'kernal'. Did you mean 'kernel'?"},
           Slip{"[[layer]]\ncov2d = 6", "net.toml:3: unknown layer 'cov2d'. Did you mean 'conv2d'?"},
           Slip{"[[layer]]\nrelu = {}", "net.toml:3: 'relu' is an activation: write activation = \"relu\"."},
           Slip{"[[layer]]\nconv2d = {kernel = 5}", "net.toml:3: conv2d: needs 'out'"},
           Slip{"[[layer]]\nconv2d = {out = \"6\"}", "net.toml:3: conv2d: out: expected an integer from 1 to"},
           Slip{"[[layer]]\ndense = -3", "net.toml:3: dense: out: expected an integer from 1 to"},
           Slip{"[[layer]]\ndense = 9000000000000000000", "dense: out: expected an integer from 1 to"},
           Slip{"[[layer]]\ndense = 0", "dense: out: expected"},
           Slip{"[[layer]]\ndropout = 1.5", "dropout: rate: expected a number from 0 to 1, got the number 1.5"},
           Slip{"[[layer]]\ndense = {out = 3, activation = \"rleu\"}", "net.toml:3: dense: activation: "},
           Slip{"[[layer]]\ndense = {out = 3, weight_init = \"he_norml\"}", "he_normal"},
           Slip{"[[layer]]\ndense = {out = 3, weight_init = {norml = 1}}", "Did you mean 'normal'?"},
           Slip{"[[layer]]\nresize = {mode = \"linea\"}",
                "net.toml:3: resize: mode: no 'linea' here. Did you mean 'linear'?"},
           Slip{"[[layer]]\nconv3d = {out = 3, kernel = [1, 2]}", "net.toml:3: conv3d: kernel: "},
           Slip{"[[layer]]\nconv2d = {out = 3, padding = \"sane\"}", "net.toml:3: conv2d: padding: "},
           Slip{"[[layer]]\nflatten = 3", "flatten: takes no settings"},
           Slip{"[[layer]]\nflatten = {x = 3}", "flatten: unknown key 'x'"},
           Slip{"[[layer]]\nflatten = {}\ndense = 3", "each layer has a [[layer]] of its own"},
           Slip{"[[layer]]\nname = \"x\"", "names no layer"},
           Slip{"[[layer]]\nname = \"a.b\"\nflatten = {}", "letters, digits"},
           Slip{"[[layer]]\nname = \"input\"\nflatten = {}", "choose another name"},
           Slip{"[[layer]]\nname = \"stem\"\nflatten = {}\n[[layer]]\nfrom = \"stm\"\ndense = 3", "stem"},
           Slip{"[[layer]]\nname = \"a\"\nflatten = {}\n[[layer]]\nname = \"a\"\ndense = 3", "net.toml:5"},
           Slip{"[[layer]]\nname = \"a\"\nflatten = {}\n[[layer]]\nfrom = [\"a\", \"input\"]\ndense = 3", "join them"},
           Slip{"[[layer]]\nname = \"a\"\nflatten = {}\n[[layer]]\nadd = [\"a\"]", "at least two"},
           Slip{"[[layer]]\ntied_dense = \"words\"", "no embedding named 'words'"},
           Slip{"[[layer]]\nrepeat = 1000000\ndense = 3", "repeat: expected"},
           Slip{"layer = 3", "[[layer]]"},
           Slip{"layer = [3]", "expected a table"},
           Slip{"layer = []", "at least one"},
           Slip{"[[layers]]\ndense = 3", "unknown key 'layers'. Did you mean 'layer'?"},
           Slip{"", "no [[layer]]"},
           Slip{"block = 3\n[[layer]]\ndense = 3", "[block.NAME]"},
           Slip{"[block.dense]\n[[block.dense.layer]]\nflatten = {}\n[[layer]]\ndense = 3", "taken by a layer"},
           Slip{"[block.b]\nx = 3\n[[layer]]\ndense = 3", "unknown key 'x'"},
           Slip{"[block.b]\n[[layer]]\ndense = 3", "has no [[block.b.layer]]"},
           Slip{"[[block.b.layer]]\ndense = \"$wdth\"\n[block.b]\nparameters = [\"width\"]\n[[layer]]\nb = 3",
                "no parameter 'wdth' in this block. Did you mean 'width'?"},
           Slip{"[[block.b.layer]]\nb = {}\n[[layer]]\nb = {}", "does one hold itself?"},
       }) {
    const std::string message = error_of(std::string("input = [28, 28, 1]\n") + s.text);
    EXPECT_NE(message.find(s.answer), std::string::npos) << s.text << "\ngave: " << message;
  }
}

TEST(NetworkFile, InputsAreChecked) {
  const std::string layer = "\n[[layer]]\ndense = 3";
  for (const char* input : {"", "input = []", "input = 3", "input = [0]", "input = [-1]", "input = [1.5]",
                            "input = [1, 1, 1, 1, 1, 1, 1]", "input = [100000000, 100000000]"})
    EXPECT_NE(error_of(input + layer).find("input"), std::string::npos) << input;
}

// Ten blocks that each hold ten of the next would be 10¹⁰ layers.
TEST(NetworkFile, BlocksCannotExplode) {
  std::string text = "input = [3]\n";
  for (int level = 0; level < 7; ++level)
    for (int i = 0; i < 10; ++i)
      text += "[[block.b" + std::to_string(level) + ".layer]]\n" +
              (level == 6 ? "dense = 3\n" : "b" + std::to_string(level + 1) + " = {}\n");
  EXPECT_NE(error_of(text + "[[layer]]\nb0 = {}").find("more than 5000 layers"), std::string::npos);
}

// Damage anywhere in a good file is read or refused, never more.
TEST(NetworkFile, DamagedFilesAreRefused) {
  const std::string good = load_text(kExamples + "googlenet.toml");
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text = good.substr(0, 200 + random() % 1800);
    for (int k = 0; k < 3; ++k) text[random() % text.size()] = static_cast<char>(random());
    refused += error_of(text) != "no error";
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace varve::nn
