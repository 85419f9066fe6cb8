// What a user is told, word for word: a sentence that is changed is changed here too, and read once more.
#include <fstream>

#include "cli/command.h"
#include "varve/io.h"

#ifdef VARVE_CLI_PATH
namespace {

using namespace varve::test;
namespace fs = std::filesystem;

struct Message {
  const char* arguments;
  int code;
  const char* text;  // after "error: "
};

constexpr Message kMessages[] = {
    // Words that are missing or wrong.
    {"predict", 2, "varve predict needs the run's folder. See: varve predict --help"},
    {"watch", 2, "varve watch needs the run's folder. See: varve watch --help"},
    {"completion", 2, "varve completion needs bash, zsh or fish. See: varve completion --help"},
    {"info extra", 2, "unknown argument 'extra'. See: varve info --help"},
    {"predict runs/lenet5-1 x.png --top many", 2,
     "varve predict: --top: Value many not in range 0 to 1000. See: varve predict --help"},
    {"train", 2,
     "train needs a network file, a name of the zoo (`varve zoo`) or the folder of a run. See: varve train --help"},
    {"train lenet5 epochs", 2,
     "unexpected argument 'epochs' after 'lenet5'. Settings are written key=value; see: varve train --help"},
    {"train lenet5 --epochs", 2, "--epochs needs a value: --epochs VALUE or epochs=VALUE."},
    {"train lenet5 --jsn", 2, "unknown option '--jsn'. Did you mean '--json'? See: varve train --help"},
    {"train lenet5 epochs=many", 2, "epochs: expected an integer from 1 to 1000000, got the string \"many\"."},
    {"train lenet5 name=a/b", 2, "name: expected a word that can name a folder, got \"a/b\"."},
    {"train lenet5 device=tpu", 2,
     "unknown device 'tpu'. Did you mean 'cpu'? Known: \"cpu\", \"cuda\", \"reference\", \"null\"."},
    {"train lenet5 --resume", 2,
     "--resume goes on with a run: give its folder, such as runs/lenet5-1, in place of 'lenet5'."},
    {"train lenet5 runs=", 1, "runs: expected a folder to make the run's folder in, got \"\"."},
    // Files that are missing or wrong.
    {"train nowhere.toml", 1, "cannot open \"nowhere.toml\": No such file or directory."},
    {"train no/where", 2, "no/where: there is no such file or folder."},
    {"train runs", 1, "runs: is a folder without config.toml, so not the folder of a run. `varve runs` lists runs."},
    {"train epoch.toml", 1, "epoch.toml:5: train: unknown key 'epoch'. Did you mean 'epochs'?"},
    {"train empty.toml", 1, "empty.toml:1: no [[layer]]: a network file lists its layers."},
    {"train lenet5 data=npz:empty.npz", 1,
     "\"empty.npz\" must hold x_train and y_train (and may hold x_test and y_test); it holds nothing."},
    {"train lenet5 weights=none.safetensors data.train=100 data.test=20", 1,
     "cannot read \"none.safetensors\": No such file or directory."},
    {"train lenet5 weights=part.safetensors data.train=100 data.test=20", 1,
     "load 'part.safetensors': the file and the model differ; nothing was loaded.\n"
     "  missing in the file: 2.weight (nearest: 0.weight), 2.bias (nearest: 0.bias), 5.weight (nearest: 0.weight), "
     "5.bias (nearest: 0.bias), 6.weight "
     "(nearest: 0.weight), 6.bias (nearest: 0.bias), 7.weight (nearest: 0.weight), 7.bias (nearest: 0.bias).\n"
     "  To load what fits: load(path, {.partial = true}), or reinitialize_mismatched=true for the command."},
    {"eval lenet5", 2, "'lenet5' has no trained weights: add weights=FILE.safetensors, or name a run's folder."},
    {"train runs/damaged --resume", 1,
     "\"runs/damaged/last.safetensors\": its checksum does not fit its content: the file was damaged after it was "
     "written. Use another copy of it."},
    {"eval runs/damaged", 1,
     "\"runs/damaged/best.safetensors\": its checksum does not fit its content: the file was damaged after it was "
     "written. Use another copy of it."},
    {"train runs/backwards --resume", 1,
     "runs/backwards/last.safetensors: the checkpoint's manifest is damaged (epoch -1, step 0 cannot be). Resume from "
     "another file."},
    // Runs.
    {"watch runs/none", 2, "'runs/none' is not the folder of a run, such as runs/lenet5-1."},
    {"runs nowhere", 2, "'nowhere' is neither a folder nor one of list, compare, plot, delete."},
    {"runs delete", 2, "delete needs the folders of runs: varve runs delete runs/lenet5-1"},
    {"runs delete runs/lenet5-1 < /dev/null", 2, "delete asks before it deletes, and nobody can answer: add --yes."},
};

void flip_last_bit(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const auto last = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(last);
}

TEST(CliMessages, AreTheseWords) {
  const Folder folder;
  ASSERT_EQ(varve_command("train lenet5 epochs=1 data.train=100 data.test=20 --quiet").code, 0);
  for (const char* copy : {"runs/damaged", "runs/backwards"}) fs::copy("runs/lenet5-1", copy);
  flip_last_bit("runs/damaged/last.safetensors");
  flip_last_bit("runs/damaged/best.safetensors");
  varve::Safetensors checkpoint = varve::load_safetensors("runs/backwards/last.safetensors");
  std::string& manifest = checkpoint.metadata["varve.manifest"];
  manifest.replace(manifest.find("\"epoch\":1,\"format\""), 9, "\"epoch\":-1");
  varve::save_safetensors("runs/backwards/last.safetensors", checkpoint);
  const varve::Safetensors best = varve::load_safetensors("runs/lenet5-1/best.safetensors");
  varve::Safetensors part;
  for (const char* name : {"0.weight", "0.bias"}) part.tensors.push_back({name, *best.find(name)});
  varve::save_safetensors("part.safetensors", part);
  std::ofstream("epoch.toml") << "input = [4]\n[[layer]]\ndense = 3\n[train]\nepoch = 3\n";
  std::ofstream("empty.toml") << "";
  varve::save_npz("empty.npz", {});
  for (const Message& message : kMessages) {
    const Result result = varve_command(message.arguments);
    EXPECT_EQ(result.code, message.code) << message.arguments;
    EXPECT_EQ(result.out, "error: " + std::string(message.text) + "\n") << message.arguments;
  }
}

TEST(CliMessages, OfALossThatIsNotFinite) {
  const Folder folder;
  const Result result = varve_command(
      "train linear data=digits epochs=1 data.train=2000 data.test=20 batch=20 optimizer=sgd rate=1e38 --quiet");
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "error: fit: the loss is NaN at epoch 1, step ")) << result.out;
  EXPECT_TRUE(contains(result.out, "expected finite values; element ")) << result.out;
  EXPECT_TRUE(contains(result.out, " is the first that is NaN or infinite.")) << result.out;
  EXPECT_FALSE(contains(result.out, "Got ")) << result.out;
}

}  // namespace
#endif
