// PASCAL VOC's layout: XML, boxes, masks, and transforms that move them.
#include <gtest/gtest.h>

#include "data/boxes.h"
#include "data/source_files.h"
#include "data/voc.h"
#include "data/xml.h"

namespace varve::data {
namespace {

TEST(Xml, IsElementsAndText) {
  const XmlNode root = parse_xml(
      "<?xml version=\"1.0\"?>\n<!-- a -->\n<a x='1' y=\"<\">\n one <b/>two &lt;&amp;&gt;<c>\n3</c></a>\n", "t");
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.text, "one two <&>");
  ASSERT_NE(root.find("c"), nullptr);
  EXPECT_EQ(root.find("c")->text, "3");
  EXPECT_EQ(root.find("c")->line, 4);
  EXPECT_EQ(root.find("d"), nullptr);
}

TEST(Xml, ThatIsNoneIsRefusedByLine) {
  const auto fails = [](const std::string& text, const std::string& part) {
    expect_error([&] { parse_xml(text, "t"); }, part);
  };
  fails("", "t, line 1: expected an element");
  fails("<a>\n<b></a>", "t, line 2: </a> closes <b> of line 2");
  fails("<a>\n\n<b>", "is not closed");
  fails("<a>&nbsp;</a>", "an & that begins none of");
  fails("<a b=c></a>", "expected a value in quotes");
  fails("<a b=\"c", "a value does not end");
  fails("<!DOCTYPE a><a/>", "expected");
  fails("<a/><b/>", "after the end");
  fails("<a", "does not end");
  fails("<>", "expected a name");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  fails(deep, "nested more than 32 deep");
  fails(std::string("<a>\0</b>", 8), "closes");
  survives([](const std::string& bytes) { parse_xml(bytes, "t"); }, "<a x='1'><b>2 &amp; 3</b><!-- c --></a>");
}

std::string object(const std::string& name, int left, int top, int right, int bottom, const std::string& more = "") {
  return "<object><name>" + name + "</name>" + more + "<bndbox><xmin>" + std::to_string(left) + "</xmin><ymin>" +
         std::to_string(top) + "</ymin><xmax>" + std::to_string(right) + "</xmax><ymax>" + std::to_string(bottom) +
         "</ymax></bndbox></object>\n";
}

TEST(Annotations, HaveBoxesInPixels) {
  const auto read = [](const std::string& objects) {
    return parse_annotation("<annotation>\n" + objects + "</annotation>", "a.xml").boxes;
  };
  const std::vector<VocBox> boxes =
      read(object("cat", 1, 2, 10, 20) + object("dog", 3, 3, 3, 3, "<difficult>1</difficult>"));
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].left, 0);
  EXPECT_EQ(boxes[0].bottom, 20);
  EXPECT_TRUE(boxes[1].difficult);
  expect_error([&] { read(object("cat", 10, 1, 5, 5)); }, "a.xml, line 2: a box from 10, 1 to 5, 5 has nothing inside");
  expect_error([&] { read("<object><name>x</name></object>"); }, "<object> has no <bndbox>");
  expect_error([&] { parse_annotation("<a/>", "a.xml"); }, "expected <annotation>, got <a>");
  std::string huge = object("cat", 1, 1, 5, 5);
  huge.replace(huge.find("<xmax>5"), 7, "<xmax>1e99");
  expect_error([&] { read(huge); }, "<xmax> is \"1e99\": expected a number");
}

class VocFolder : public SourceTest {
 protected:
  // A white square of class `kind` on black, 8×8 pixels of 16×16, from (row, column).
  void picture(const std::string& id, int row, int column, std::uint8_t kind) const {
    write("voc/JPEGImages/x", "");
    write("voc/SegmentationClass/x", "");
    Picture image = {.height = 16, .width = 16, .channels = 3, .pixels = std::vector<std::uint8_t>(768)};
    Picture mask = {.height = 16, .width = 16, .channels = 1, .pixels = std::vector<std::uint8_t>(256)};
    for (int y = row; y < row + 8; ++y)
      for (int x = column; x < column + 8; ++x) {
        mask.pixels[static_cast<std::size_t>(16 * y + x)] = kind;
        for (int c = 0; c < 3; ++c) image.pixels[static_cast<std::size_t>(3 * (16 * y + x) + c)] = 255;
      }
    mask.pixels[static_cast<std::size_t>(16 * row + column)] = 255;  // a border
    save_png(path("voc/JPEGImages/" + id + ".png"), image);
    save_mask(path("voc/SegmentationClass/" + id + ".png"), mask);
    write(
        "voc/Annotations/" + id + ".xml",
        "<annotation>" + object(voc_classes()[kind - 1u], column + 1, row + 1, column + 8, row + 8) + "</annotation>");
  }
  VocOptions options(VocTask task) const {
    return {.height = 16, .width = 16, .task = task, .boxes = 2, .test_share = 0};
  }
};

TEST_F(VocFolder, HasMasks) {
  picture("a", 0, 8, 3);
  picture("b", 4, 4, 1);
  const Dataset train = voc(path("voc"), options(VocTask::segmentation)).train;
  EXPECT_EQ(train.y(), (TensorType{i32, {16, 16}}));
  EXPECT_EQ(train.info().classes.size(), 21u);
  EXPECT_EQ(train.info().classes[3], "bird");
  const std::vector<int> mask = train.at(0).second.to_vector<int>();
  EXPECT_EQ(mask[8], 0);  // the border
  EXPECT_EQ(mask[9], 3);
  EXPECT_EQ(mask[7], 0);
  EXPECT_EQ(kind_of_path(path("voc")), "voc");
  const Picture read = load_mask(path("voc/SegmentationClass/a.png"));
  EXPECT_EQ(read.channels, 1);
  EXPECT_EQ(read.pixels[8], 255);
  EXPECT_EQ(read.pixels[9], 3);

  // Masks move with their pictures.
  const Dataset moved = train.map({random_crop(3), random_flip(), random_rotate(0), random_scale(1, 1)});
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto [image, target] = moved.at(i);
    const std::vector<float> pixels = image.to_vector<float>();
    const std::vector<int> labels = target.to_vector<int>();
    int differ = 0;
    for (std::size_t p = 0; p < labels.size(); ++p) differ += (labels[p] > 0) != (pixels[3 * p] > 0.5f);
    EXPECT_LE(differ, 1);  // the border
  }
}

TEST_F(VocFolder, HasBoxesThatMoveWithTheirPictures) {
  picture("a", 0, 8, 3);
  picture("b", 4, 4, 1);
  const Dataset train = voc(path("voc"), options(VocTask::detection)).train;
  EXPECT_EQ(train.y(), (TensorType{f32, {2, 5}}));
  EXPECT_EQ(train.at(0).second.to_vector<float>(), (std::vector<float>{2, 0.5f, 0, 1, 0.5f, -1, 0, 0, 0, 0}));
  for (const Transform& transform : {random_crop(4), random_flip(), random_rotate(0), random_scale(0.5, 1.2)}) {
    const Dataset moved = train.map({transform});
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto [image, target] = moved.at(i);
      const std::vector<float> pixels = image.to_vector<float>(), box = target.to_vector<float>();
      // Where the white pixels are.
      int left = 16, right = 0, top = 16, bottom = 0;
      for (int y = 0; y < 16; ++y)
        for (int x = 0; x < 16; ++x)
          if (pixels[static_cast<std::size_t>(3 * (16 * y + x))] > 0.5f) {
            left = std::min(left, x);
            right = std::max(right, x + 1);
            top = std::min(top, y);
            bottom = std::max(bottom, y + 1);
          }
      ASSERT_GE(box[0], 0) << transform.name;
      EXPECT_NEAR(box[1] * 16, left, 1.01) << transform.name;
      EXPECT_NEAR(box[2] * 16, top, 1.01) << transform.name;
      EXPECT_NEAR(box[3] * 16, right, 1.01) << transform.name;
      EXPECT_NEAR(box[4] * 16, bottom, 1.01) << transform.name;
    }
  }
  expect_error([&] { train.map({{"own", [](Image&, Random&) {}}}); }, "own moves pixels, and its targets are boxes");
  BoxRow outside = {0, 0.9f, 0.9f, 1.9f, 1.9f};
  EXPECT_FALSE(cut_box(outside));
}

TEST_F(VocFolder, IsListedByItsImageSets) {
  for (const char* id : {"a", "b", "c"}) picture(id, 0, 0, 1);
  write("voc/ImageSets/Segmentation/train.txt", "a\nb  1\r\n\n");
  write("voc/ImageSets/Segmentation/val.txt", "c\n");
  write("voc/classes.txt", "disc\nbox\n");
  const Splits splits = load("voc:" + path("voc"), {{"height", 8}, {"width", 8}});
  EXPECT_EQ(splits.train.size(), 2);
  EXPECT_EQ(splits.test.size(), 1);
  EXPECT_EQ(splits.train.info().classes, (std::vector<std::string>{"background", "disc", "box"}));
  write("voc/ImageSets/Segmentation/train.txt", "a\n../../secret\n");
  expect_error([&] { load("voc:" + path("voc")); }, "line 2: \"../../secret\" is not the name of a picture");
  write("voc/ImageSets/Segmentation/train.txt", "none\n");
  expect_error([&] { load("voc:" + path("voc")); }, "there is no picture \"none.jpg\"");
}

TEST_F(VocFolder, ThatDoesNotFitIsRefused) {
  expect_error([&] { voc(path("nothing")); }, "is not laid out as PASCAL VOC");
  picture("a", 0, 0, 5);
  write("voc/classes.txt", "disc\n");
  expect_error([&] { read_all(voc(path("voc"), options(VocTask::segmentation)).train); },
               "a pixel is of class 5, and there are 2");
  expect_error([&] { read_all(voc(path("voc"), options(VocTask::detection)).train); },
               "\"bottle\" is none of the classes");
  std::filesystem::remove(path("voc/classes.txt"));
  VocOptions one = options(VocTask::detection);
  one.boxes = 1;
  write("voc/Annotations/a.xml",
        "<annotation>" + object("cat", 1, 1, 5, 5) + object("cat", 2, 2, 6, 6) + "</annotation>");
  expect_error([&] { read_all(voc(path("voc"), one).train); },
               "has 2 boxes, and a sample takes 1: give more (boxes=2)");
  save_mask(path("voc/SegmentationClass/a.png"), {.height = 2, .width = 2, .channels = 1, .pixels = {0, 0, 0, 0}});
  expect_error([&] { read_all(voc(path("voc"), options(VocTask::segmentation)).train); },
               "the mask is 2×2, its picture 16×16");
  save_png(path("voc/SegmentationClass/a.png"), {.height = 1, .width = 1, .channels = 3, .pixels = {1, 2, 3}});
  expect_error([&] { read_all(voc(path("voc"), options(VocTask::segmentation)).train); },
               "expected a palette, or grey");
}

}  // namespace
}  // namespace varve::data
