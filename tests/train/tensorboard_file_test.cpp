// Event files, read back by a reader of the format that shares nothing with the writer.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "train/session_double.h"
#include "train/tensorboard_event.h"
#include "varve/io.h"

namespace varve::train {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Bit by bit, as the polynomial is defined.
std::uint32_t slow_crc32c(const std::uint8_t* data, std::size_t size) {
  std::uint32_t crc = 0xffffffffu;
  for (std::size_t i = 0; i < size; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t low = (crc ^ (data[i] >> bit)) & 1u;
      crc = (crc >> 1) ^ (low ? 0x82f63b78u : 0u);
    }
  return crc ^ 0xffffffffu;
}
std::uint32_t unmasked(std::uint32_t stored) {
  const std::uint32_t turned = stored - 0xa282ead8u;
  return (turned << 15) | (turned >> 17);
}

struct Reader {
  const std::uint8_t* at;
  const std::uint8_t* end;
  template <class T>
  T fixed() {
    T value;
    if (end - at < static_cast<std::ptrdiff_t>(sizeof value)) throw Error("cut short");
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
  }
  Reader inner() {
    const auto size = static_cast<std::ptrdiff_t>(varint());
    if (end - at < size) throw Error("cut short");
    at += size;
    return {at - size, at};
  }
  std::string text() const { return {reinterpret_cast<const char*>(at), static_cast<std::size_t>(end - at)}; }
};

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  bool restart = false;
  std::map<std::string, float> scalars;
};

void read_value(Reader value, Event& event) {
  std::string tag;
  while (value.at < value.end) {
    const std::uint64_t key = value.varint();
    if (key == (1 << 3 | 2))
      tag = value.inner().text();
    else if (key == (2 << 3 | 5))
      event.scalars[tag] = value.fixed<float>();
    else
      throw Error("unknown field of a value");
  }
}

Event read_event(Reader reader) {
  Event event;
  while (reader.at < reader.end) {
    const std::uint64_t key = reader.varint();
    if (key == (1 << 3 | 1)) {
      event.wall_time = reader.fixed<double>();
    } else if (key == (2 << 3 | 0)) {
      event.step = static_cast<std::int64_t>(reader.varint());
    } else if (key == (3 << 3 | 2)) {
      event.version = reader.inner().text();
    } else if (key == (5 << 3 | 2)) {
      for (Reader summary = reader.inner(); summary.at < summary.end;) {
        if (summary.varint() != (1 << 3 | 2)) throw Error("unknown field of a summary");
        read_value(summary.inner(), event);
      }
    } else if (key == (7 << 3 | 2)) {
      Reader log = reader.inner();
      event.restart = log.varint() == (1 << 3 | 0) && log.varint() == 1;
    } else {
      throw Error("unknown field of an event");
    }
  }
  return event;
}

std::vector<Event> read_file(const std::string& path) {
  const Bytes bytes = load_bytes(path);
  std::vector<Event> events;
  for (Reader file = {bytes.data(), bytes.data() + bytes.size()}; file.at < file.end;) {
    const std::uint8_t* head = file.at;
    const auto size = static_cast<std::ptrdiff_t>(file.fixed<std::uint64_t>());
    EXPECT_EQ(unmasked(file.fixed<std::uint32_t>()), slow_crc32c(head, 8));
    if (file.end - file.at < size) throw Error("cut short");
    const Reader data = {file.at, file.at + size};
    file.at += size;
    EXPECT_EQ(unmasked(file.fixed<std::uint32_t>()), slow_crc32c(data.at, static_cast<std::size_t>(size)));
    events.push_back(read_event(data));
  }
  return events;
}

struct Folder {
  std::string path = testing::TempDir() + "varve_tensorboard_test";
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST(TensorBoard, ChecksumOfTheStandardExample) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(TensorBoard, WritesStepsAndEpochs) {
  const Folder folder;
  SessionDouble session("val_loss", folder.path + "/run");
  const CallbackPtr callback = tensorboard(folder.path);
  callback->begin(session);
  for (int i = 1; i <= 45; ++i) session.do_step(*callback, i / 4.0);
  session.do_epoch(*callback, {{"loss", 0.5}, {"val_loss", 0.625}, {"accuracy", 0.75}});
  ASSERT_EQ(folder.files().size(), 1u);
  EXPECT_NE(folder.files()[0].find("/events.out.tfevents."), std::string::npos);

  // Flushed at the end of an epoch: a reader sees it before the run ends.
  const std::vector<Event> events = read_file(folder.files()[0]);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.6e9);
  EXPECT_EQ(events[1].step, 20);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"loss/step", 5.f}}));
  EXPECT_EQ(events[2].step, 40);
  EXPECT_EQ(events[3].step, 1);
  EXPECT_EQ(events[3].scalars, (std::map<std::string, float>{{"accuracy/training", 0.75f},
                                                             {"loss/training", 0.5f},
                                                             {"loss/validation", 0.625f},
                                                             {"rate", 0.25f},
                                                             {"seconds", 1.5f}}));
  callback->end(session);
}

TEST(TensorBoard, AResumedRunBeginsAFileOfItsOwn) {
  const Folder folder;
  for (const std::int64_t step : {0, 300}) {
    SessionDouble session("val_loss", folder.path);
    session.resume_at(step);
    const CallbackPtr callback = tensorboard();
    callback->begin(session);
    callback->end(session);
  }
  const std::vector<std::string> files = folder.files();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(read_file(files[0]).size(), 1u);
  const std::vector<Event> resumed = read_file(files[1]);
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_TRUE(resumed[1].restart);
  EXPECT_EQ(resumed[1].step, 301);
}

TEST(TensorBoard, NeedsAFolderItCanWrite) {
  SessionDouble session;
  EXPECT_THROW(tensorboard()->begin(session), Error);
  EXPECT_THROW(tensorboard("/proc/varve")->begin(session), Error);
}

}  // namespace
}  // namespace varve::train
