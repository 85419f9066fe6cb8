// Configurations: read, overridden, written and read again.
#include "varve/train/config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "temporary_folder.h"
#include "varve/io.h"
#include "varve/zoo.h"

namespace varve::train {
namespace {

const std::string kExamples = VARVE_TESTS_DIR "/../examples/networks/";

std::string error_of(const std::string& name, const std::vector<std::string>& overrides) {
  try {
    load_config(name, overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
std::string error_in(const std::string& train) {
  try {
    config_from_toml("network = \"lenet5\"\n[train]\n" + train, "f.toml");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

double option(const Named& named, const std::string& name) {
  for (const auto& [key, value] : named.options)
    if (key == name) return value;
  return -1;
}

TEST(Config, ReadsEveryWayToWriteAThingWithOptions) {
  for (const char* text : {"optimizer = {sgd = {rate = 0.5, nesterov = true, momentum = 0.9}}",
                           "optimizer = {name = \"sgd\", rate = 0.5, nesterov = true, momentum = 0.9}"}) {
    const Config c = config_from_toml(std::string("network = \"lenet5\"\n[train]\n") + text, "f.toml");
    EXPECT_EQ(c.optimizer.name, "sgd");
    EXPECT_EQ(option(c.optimizer, "rate"), 0.5);
    EXPECT_EQ(option(c.optimizer, "nesterov"), 1);
  }
  const Config c = config_from_toml(R"(network = "lenet5"
[train]
data = {digits = {train = 2000}}
augment = ["flip", {crop = {padding = 2}}, {name = "rotate", degrees = 5}]
schedule = {milestones = {epochs = [3, 5], factor = 0.5}}
mean = 0.5
freeze = "conv*"
)",
                                    "f.toml");
  EXPECT_EQ(c.data, "digits");
  EXPECT_EQ(c.data_options.at("train"), 2000);
  ASSERT_EQ(c.augment.size(), 3u);
  EXPECT_EQ(c.augment[1].name, "crop");
  EXPECT_EQ(option(c.augment[2], "degrees"), 5);
  EXPECT_EQ(c.schedule.options.size(), 3u);
  EXPECT_EQ(c.mean, std::vector<double>{0.5});
  EXPECT_EQ(c.freeze, std::vector<std::string>{"conv*"});
}

TEST(Config, ZooEntriesBringTheirRecipe) {
  int recipes = 0;
  for (const zoo::Entry& entry : zoo::entries()) {
    const Config c = load_config(entry.name);  // each recipe of the zoo is understood
    EXPECT_EQ(c.name, entry.name);
    EXPECT_EQ(c.network, entry.name);
    EXPECT_EQ(c.data.empty(), entry.train.empty());
    recipes += !entry.train.empty();
  }
  EXPECT_GT(recipes, 5);
  EXPECT_EQ(load_config("lenet5").data, "digits");
  EXPECT_EQ(network_input(load_config("lenet5")).shape, (Shape{28, 28, 1}));
}

TEST(Config, OverridesReachEverywhere) {
  const Config c =
      load_config("cnn-mnist", {"epochs=7", "rate=0.01", "optimizer.beta1=0.8", "data=digits", "data.train=500",
                                "seed=3", "name=mine", "width=16", "sizes.classes=5", "augment=flip,noise",
                                "mean=0.1,0.2", "freeze=a*", "schedule={step_decay = {every = 2}}", "precision=bf16",
                                "deterministic=true", "weights=a.safetensors"});
  EXPECT_EQ(c.epochs, 7);
  EXPECT_EQ(option(c.optimizer, "rate"), 0.01);
  EXPECT_EQ(option(c.optimizer, "beta1"), 0.8);
  EXPECT_EQ(c.data, "digits");
  EXPECT_EQ(c.data_options.at("train"), 500);
  EXPECT_EQ(c.seed, 3);
  EXPECT_EQ(c.name, "mine");
  EXPECT_EQ(c.sizes.at("width"), 16);
  EXPECT_EQ(c.sizes.at("classes"), 5);
  ASSERT_EQ(c.augment.size(), 2u);
  EXPECT_EQ(c.augment[1].name, "noise");
  EXPECT_EQ(c.mean, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(c.schedule.name, "step_decay");
  EXPECT_EQ(c.precision, "bf16");
  EXPECT_TRUE(c.deterministic);
  EXPECT_EQ(c.weights, "a.safetensors");
  EXPECT_EQ(load_config("cnn-mnist", {"optimizer=sgd"}).optimizer.options.size(), 0u);  // another one, its own options
}

TEST(Config, SettingsMeanTheSameInAnyOrder) {
  EXPECT_EQ(load_config("lenet5", {"rate=0.5", "optimizer=sgd"}).optimizer.options, (Numbers{{"rate", 0.5}}));
  std::vector<std::string> settings = {"data.train=50",   "data=digits", "optimizer.momentum=0.9",
                                       "optimizer=sgd",   "rate=0.5",    "schedule=step_decay",
                                       "schedule.every=3"};
  std::sort(settings.begin(), settings.end());
  const std::string text = load_config("lenet5", settings).toml();
  EXPECT_NE(text.find("momentum = 0.9"), std::string::npos) << text;
  do ASSERT_EQ(load_config("lenet5", settings).toml(), text);
  while (std::next_permutation(settings.begin(), settings.end()));
  EXPECT_EQ(error_of("lenet5", {"rate=1", "optimizer.rate=2"}),
            "optimizer.rate is set twice, to 1 and to 2. Leave one of them out.");
  EXPECT_EQ(load_config("lenet5", {"epochs=3", "epochs=3"}).epochs, 3);
}

TEST(Config, WrittenAndReadBackItIsTheSame) {
  const std::vector<std::string> changes = {"rate=0.003",          "schedule={milestones = {epochs = [2, 4]}}",
                                            "augment=flip,crop",   "mean=[0.1]",
                                            "metrics=accuracy,f1", "data.train=500",
                                            "name=a \"b\"",        "freeze=[\"x.*\"]"};
  for (const std::string& name : {std::string("lenet5"), kExamples + "lenet.toml"}) {
    const Config first = load_config(name, changes);
    const std::string text = first.toml();
    const Config second = config_from_toml(text, "config.toml");
    EXPECT_EQ(text, second.toml());
    EXPECT_EQ(second.name, "a \"b\"");
    EXPECT_EQ(second.network, first.network);
    EXPECT_EQ(second.layers, first.layers);
    EXPECT_EQ(second.data_options, first.data_options);
    EXPECT_EQ(second.optimizer.options, first.optimizer.options);
    EXPECT_EQ(second.schedule.options, first.schedule.options);
    EXPECT_EQ(second.metrics, first.metrics);
  }
}

TEST(Config, EveryKeyIsWritten) {
  const std::string text = load_config("lenet5").toml();
  for (const ConfigKey& key : config_keys()) {
    EXPECT_NE(text.find("\n" + key.name + " = "), std::string::npos) << key.name;
    EXPECT_FALSE(key.doc.empty());
    EXPECT_FALSE(key.standard.empty());
  }
}

TEST(Config, EveryExampleWithBlocksSurvivesTheRoundTrip) {
  for (const char* name : {"googlenet", "resnet-cifar", "gpt", "alexnet", "lstm-imdb"}) {
    const Config first = load_config(kExamples + name + ".toml");
    const Config second = config_from_toml(first.toml(), "config.toml");
    EXPECT_EQ(first.layers, second.layers);
    const TensorType input = network_input(second);
    const nn::Layer a = make_network(first), b = make_network(second);
    a->build(input.shape, {.dtype = input.dtype});
    b->build(input.shape, {.dtype = input.dtype});
    EXPECT_EQ(a->parameter_count(), b->parameter_count()) << name;
  }
}

TEST(Config, ARunsFolderIsItsConfig) {
  const test::TemporaryFolder made;
  const std::filesystem::path& folder = made.path();
  save_text((folder / "config.toml").string(), load_config("lenet5", {"epochs=9"}).toml());
  EXPECT_EQ(load_config(folder.string()).epochs, 9);
  EXPECT_EQ(load_config(folder.string(), {"epochs=2"}).epochs, 2);
  std::filesystem::remove(folder / "config.toml");
  EXPECT_NE(error_of(folder.string(), {}).find("not the folder of a run"), std::string::npos);
}

TEST(Config, UnknownSettingsAreAnsweredWithTheNearest) {
  struct Case {
    const char* setting;
    const char* answer;
  };
  for (const Case& c : {Case{"epoch=3", "unknown key 'epoch'. Did you mean 'epochs'?"},
                        Case{"optimizer=adm", "adam"},
                        Case{"optimizer.rat=1", "rate"},
                        Case{"schedule=cosin", "cosine"},
                        Case{"data=mnst", "Did you mean 'mnist'?"},
                        Case{"data.trin=3", "Did you mean 'train'?"},
                        Case{"augment=flop", "flip"},
                        Case{"loss=mes", "mse"},
                        Case{"metrics=acuracy", "accuracy"},
                        Case{"precision=f8", "Known: f32, tf32, bf16"},
                        Case{"epochs=many", "epochs: expected an integer from 1 to 1000000, got the string \"many\""},
                        Case{"epochs=0", "epochs: expected"},
                        Case{"epochs=2.5", "epochs: expected"},
                        Case{"batch=-1", "batch: expected"},
                        Case{"validation=2", "validation: expected a number from 0 to 0.9"},
                        Case{"deterministic=1", "true or false"},
                        Case{"epochs.x=1", "epochs"},
                        Case{"=3", "key=value"},
                        Case{"name=a/b", "name"},
                        Case{"rate=nan", "rate"},
                        Case{"zzzzzz=1", "varve schema"}}) {
    const std::string message = error_of("lenet5", {c.setting});
    EXPECT_NE(message.find(c.answer), std::string::npos) << c.setting << " gave " << message;
  }
  EXPECT_NE(error_of("lenet55", {}).find("lenet5"), std::string::npos);
  EXPECT_NE(error_of("missing.toml", {}).find("missing.toml"), std::string::npos);
}

TEST(Config, FilesAreAnsweredWithTheirLine) {
  EXPECT_EQ(error_in("epoch = 3"), "f.toml:3: train: unknown key 'epoch'. Did you mean 'epochs'?");
  EXPECT_EQ(error_in("\nepochs = \"3\"").rfind("f.toml:4: epochs: expected an integer", 0), 0u);
  EXPECT_EQ(error_in("optimizer = {adam = {rates = 1}}").rfind("f.toml:3: optimizer: ", 0), 0u);
  EXPECT_NE(error_in("optimizer = {rate = 1}").find("{NAME = {option = 1}}"), std::string::npos);
  EXPECT_NE(error_in("optimizer = 3").find("f.toml:3"), std::string::npos);
  EXPECT_NE(error_in("data = []").find("f.toml:3"), std::string::npos);
  const auto top = [](const std::string& text) {
    try {
      config_from_toml(text, "f.toml");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(top("network = \"lenet5\"\nepochs = 3").find("belongs under [train]"), std::string::npos);
  EXPECT_NE(top("network = \"lenet55\"").find("f.toml:1: network: "), std::string::npos);
  EXPECT_NE(top("network = \"lenet5\"\n[[layer]]\ndense = 3").find("layers of its own"), std::string::npos);
  EXPECT_NE(top("input = [3]\nsizes = {x = 1}\n[[layer]]\ndense = 3").find("only networks of the zoo"),
            std::string::npos);
  EXPECT_NE(top("input = [3]\n[[layer]]\nconv2d = {kernal = 1}").find("f.toml:3: conv2d"), std::string::npos);
  EXPECT_NE(top("train = 3\nnetwork = \"lenet5\"").find("f.toml:1"), std::string::npos);
  EXPECT_NE(top("").find("no [[layer]]"), std::string::npos);
}

}  // namespace
}  // namespace varve::train
