// Texts, sounds, masks and boxes, trained, scored and asked from the shell.
#include "cli/command.h"

#include <fstream>

#include "varve/io.h"

#ifdef VARVE_CLI_PATH
namespace varve::test {
namespace {

void ok(const std::string& arguments, const std::string& part = "") {
  const Result result = varve_command(arguments);
  ASSERT_EQ(result.code, 0) << arguments << "\n" << result.out;
  EXPECT_NE(result.out.find(part), std::string::npos) << arguments << "\n" << result.out;
}
void refused(const std::string& arguments, const std::string& part) {
  const Result result = varve_command(arguments);
  EXPECT_NE(result.code, 0) << arguments;
  EXPECT_NE(result.out.find(part), std::string::npos) << arguments << "\n" << result.out;
}

TEST(Kinds, TextsAreTrainedResumedAndAsked) {
  const Folder folder;
  ok("datasets make reviews reviews samples=60", "60 samples of reviews");
  ok("train data=reviews data.length=20 epochs=8 validation=0 batch=8 rate=0.01", "an embedding and a convolution");
  std::ofstream("page.txt") << "Dull, slow, a waste of an evening. I want my money back.";
  ok("predict runs/reviews-1 page.txt top=1", "bad ");
  ok("predict runs/reviews-1 'Wonderful, a joy for everybody' top=1", "good ");
  ok("eval runs/reviews-1", "accuracy ");
  ok("train runs/reviews-1 --resume epochs=9", "epoch 9/9");
  refused("predict runs/reviews-1", "predict needs something");
}

TEST(Kinds, SoundsAreTrainedAndAsked) {
  const Folder folder;
  ok("datasets make sounds tones samples=36");
  ok("train data=tones data.rate=8000 data.frames=24 data.window=256 data.step=256 data.mels=24 epochs=6 validation=0 "
     "batch=8 rate=0.005");
  ok("predict runs/tones-1 tones/steady/2.wav tones/rising/1.wav --csv top=1", "tones/rising/1.wav,");
  ok("predict runs/tones-1 tones", "tones/steady/35.wav");
  std::ofstream("bad.wav") << "RIFF";
  refused("predict runs/tones-1 bad.wav", "bad WAV file");
  if (varve_command("datasets make speech words samples=8").code == 0)
    ok("train data=words epochs=1 validation=0 data.test_share=0", "98×40×1");
}

TEST(Kinds, MasksAndBoxesAreTrainedAndDrawn) {
  const Folder folder;
  ok("datasets make shapes shapes samples=20");
  ok("train data=shapes data.height=32 data.width=32 epochs=2 validation=0 batch=8 augment=flip", "mean_iou");
  std::filesystem::create_directory("masks");
  ok("predict runs/shapes-1 shapes/JPEGImages/shapes_19.jpg out=masks", "masks/shapes_19.mask.png");
  const Picture mask = load_mask("masks/shapes_19.mask.png");
  EXPECT_EQ(mask.height, 64);
  EXPECT_EQ(mask.width, 64);
  ok("eval runs/shapes-1", "mean_iou");
  refused("predict runs/shapes-1 shapes/JPEGImages/shapes_19.jpg out=none", "is no folder to write masks into");
  ok("train data=shapes loss=detection data.height=32 data.width=32 epochs=2 validation=0 batch=8 name=finder",
     "map50");
  ok("predict runs/finder-1 shapes/JPEGImages score=0 --csv", "input,class,score,left,top,right,bottom\nshapes/");
  ok("predict runs/finder-1 shapes/JPEGImages/shapes_0.jpg score=1", "nothing found");
}

TEST(Kinds, TablesWithGapsSayWhatWasFilled) {
  const Folder folder;
  std::ofstream("t.csv") << "a;when;y\n1;2024-01-01;1.5\n;2024-01-02;2.5\n5;2024-02-01;3.5\n4;2024-02-01;4.5\n";
  refused("train data=t.csv epochs=1 data.test_share=0 validation=0", "data.missing=mean");
  ok("train data=t.csv epochs=1 data.test_share=0 validation=0 data.missing=median",
     "\"a\": 1 missing value, taken as 4, the median");
  ok("predict runs/t-1 '?;2024-03-01'");
  std::ofstream("new.jsonl") << "{\"when\": \"2024-05-01\"}\n{\"when\": \"2024-05-02\", \"a\": 2}\n";
  ok("predict runs/t-1 new.jsonl", "new.jsonl:2");
  ok("train runs/t-1 --resume epochs=2", "epoch 2/2");
  refused("train data=t.csv data.missing=middle", "'middle' is no value of data.missing");
}

}  // namespace
}  // namespace varve::test
#endif
