// Downloads (real ones, from a server of the test's own), checksums, and archives.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

#include "data/fetch.h"
#include "data/fetch_hash.h"
#include "data/fetch_tar.h"
#include "data/source_files.h"

namespace varve::data {
namespace {

std::string hash_of(BlockHash&& hash, const std::string& text) {
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

// From RFC 1321 and FIPS 180-4; the longer ones by md5sum and sha256sum.
TEST(Checksum, AgreesWithTheStandards) {
  EXPECT_EQ(hash_of(Md5(), ""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hash_of(Md5(), "message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(hash_of(Sha256(), ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of(Sha256(), "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of(Sha256(), "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(Md5(), std::string(1000, 'x')), "398533d48111e9f664b1f64cb10c4b63");
  EXPECT_EQ(hash_of(Sha256(), std::string(1000, 'x')),
            "44f8354494a5ba03ba1792a8d3e9c534c47a9181980fde7a3f44b06ef2ae7c7f");
}

TEST(Checksum, DoesNotDependOnHowTheBytesCome) {
  for (std::size_t size = 50; size < 70; ++size) {  // around the length at which the padding needs a block more
    const std::string text = noise_bytes(size, 3);
    Sha256 parts;
    for (const char& c : text) parts.add(std::as_bytes(std::span(&c, 1)));
    EXPECT_EQ(parts.hex(), hash_of(Sha256(), text));
  }
}

// ---- archives

struct TarEntry {
  std::string name, content;
  char kind = '0';
};

std::string tar_bytes(const std::vector<TarEntry>& entries) {
  std::string tar;
  for (const TarEntry& entry : entries) {
    std::string block(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
    char size[13];
    std::snprintf(size, sizeof(size), "%011zo", entry.content.size());
    put(0, entry.name.substr(0, 100));
    put(124, size);
    block[156] = entry.kind;
    put(257, std::string("ustar\0"
                         "00",
                         8));
    put(148, "        ");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    char checksum[9];
    std::snprintf(checksum, sizeof(checksum), "%06o", sum);
    put(148, std::string(checksum) + '\0');
    tar += block + entry.content + std::string((512 - entry.content.size() % 512) % 512, '\0');
  }
  return tar + std::string(1024, '\0');
}

std::string gzipped(const std::string& bytes) {
  std::string packed(bytes.size() + 1000, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class Archives : public SourceTest {
 protected:
  Archives() { std::filesystem::create_directories(path("out")); }
  void unpack(const std::string& bytes, const TarOptions& options = {}) const {
    unpack_tar(write("a.tar.gz", bytes), path("out"), options);
  }
  std::string text(const std::string& name) const { return load_text(path("out/" + name)); }
};

TEST_F(Archives, AreUnpacked) {
  const std::string large = noise_bytes(3000, 1), long_name = std::string(150, 'n');
  const std::string record = " path=pax/name.txt\n";
  const std::string pax = std::to_string(record.size() + 2) + record;
  unpack(gzipped(tar_bytes({{"top/", "", '5'},
                            {"top/a.bin", large},
                            {"top/deep/er/empty", "", '\0'},
                            {"././@LongLink", long_name + '\0', 'L'},
                            {"cut", "long"},
                            {"pax", "20 comment=abcdefgh\n", 'g'},
                            {"pax", pax, 'x'},
                            {"cut", "pax"}})));
  EXPECT_EQ(text("top/a.bin"), large);
  EXPECT_EQ(text("top/deep/er/empty"), "");
  EXPECT_EQ(text(long_name), "long");
  EXPECT_EQ(text("pax/name.txt"), "pax");
  EXPECT_FALSE(std::filesystem::exists(path("out/cut")));
  unpack(tar_bytes({{"plain", "not packed"}}));
  EXPECT_EQ(text("plain"), "not packed");
}

TEST_F(Archives, CannotLeaveTheirFolder) {
  for (const std::string& name :
       {std::string("/etc/evil"), path("evil"), std::string("../evil"), std::string("a/../../evil"), std::string()}) {
    expect_error([&] { unpack(gzipped(tar_bytes({{name, "x"}}))); }, "would leave the folder");
  }
  expect_error(
      [&] {
        unpack(gzipped(tar_bytes({{"x", std::string("../evil\0", 8), 'L'}, {"y", "x"}})));
      },
      "would leave");
  for (const char kind : {'1', '2', '3', '6', 'S'}) {
    expect_error([&] { unpack(gzipped(tar_bytes({{"link", "", kind}}))); }, "neither a file nor a folder");
  }
  EXPECT_FALSE(std::filesystem::exists(path("evil")));
  EXPECT_TRUE(std::filesystem::is_empty(path("out")));
}

TEST_F(Archives, AreBounded) {
  const std::string two = gzipped(tar_bytes({{"a", "12345"}, {"b", "12345"}}));
  expect_error([&] { unpack(two, {.most_bytes = 9}); }, "larger than 9 bytes");
  expect_error([&] { unpack(two, {.most_entries = 1}); }, "more than 1 entries");
  unpack(two, {.most_bytes = 10, .most_entries = 2});
  const std::string bomb = gzipped(tar_bytes({{"a", std::string(3'000'000, 'x')}}));
  setenv("VARVE_UNPACK_GB", "0.001", 1);
  expect_error([&] { unpack(bomb); }, "unpacks to more than 1.0 MB");
  setenv("VARVE_UNPACK_GB", "0.004", 1);
  unpack(bomb);
  unsetenv("VARVE_UNPACK_GB");
  std::string huge = tar_bytes({{"a", ""}});
  huge.replace(124, 11, "77777777777");
  expect_error([&] { unpack(gzipped(huge)); }, "checksum is wrong");
}

TEST_F(Archives, CutAnywhereAreRefused) {
  const std::string good = gzipped(tar_bytes({{"a", noise_bytes(600, 2)}, {"b", "x"}}));
  for (std::size_t size = 0; size < good.size(); size += 7) {
    expect_error([&] { unpack(good.substr(0, size)); }, "could not be unpacked");
  }
  const std::string plain = tar_bytes({{"a", "x"}});
  for (std::size_t size = 0; size < 1025; size += 13) {
    expect_error([&] { unpack(plain.substr(0, size)); }, "could not be unpacked");
  }
  survives([&](const std::string& bytes) { unpack(bytes); }, good);
  survives([&](const std::string& bytes) { unpack(bytes); }, plain);
  survives([&](const std::string& bytes) { unpack(gzipped(bytes)); }, plain);
}

// ---- downloads

class Server {
 public:
  explicit Server(const std::string& folder) {
    int ends[2];
    if (pipe(ends) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      execlp("python3", "python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", folder.c_str(),
             nullptr);
      _exit(127);
    }
    close(ends[1]);
    output_.reset(fdopen(ends[0], "r"));
    int port = 0;
    if (std::fscanf(output_.get(), "Serving HTTP on 127.0.0.1 port %d", &port) == 1) {
      url_ = "http://127.0.0.1:" + std::to_string(port) + "/";
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  const std::string& url() const { return url_; }

 private:
  pid_t child_ = -1;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> output_{nullptr, std::fclose};  // open: the server writes a log
  std::string url_;
};

class Downloads : public SourceTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(path("served"));
    server_ = std::make_unique<Server>(path("served"));
    ASSERT_FALSE(server_->url().empty()) << "python3 -m http.server did not start";
  }
  Home home(const std::string& name, const std::string& content, std::vector<std::string> mirrors) const {
    return {.name = "set",
            .folder = "set",
            .mirrors = std::move(mirrors),
            .files = {{.path = "set/" + name, .hash = hash_of(Sha256(), content)}}};
  }
  std::string left_overs() const {  // whatever else lies beside the file
    std::string names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path("set")))
      names += entry.path().filename().string() + " ";
    return names;
  }
  static constexpr FetchOptions kQuiet = {.download = true, .quiet = true};
  const std::string content_ = noise_bytes(100000, 9);
  std::unique_ptr<Server> server_;

 private:
  Setting no_proxy_{"no_proxy", "127.0.0.1"}, no_mirror_{"VARVE_DATA_MIRROR", ""};
};

TEST_F(Downloads, ArriveWholeFromTheFirstMirrorThatHasThem) {
  write("served/there/a.bin", content_);
  const Home set =
      home("a.bin", content_, {"http://127.0.0.1:1/", server_->url() + "nothing/", server_->url() + "there/"});
  EXPECT_FALSE(present(set));
  fetch(set, kQuiet);
  EXPECT_TRUE(present(set));
  EXPECT_EQ(load_text(path("set/a.bin")), content_);
  EXPECT_EQ(left_overs(), "a.bin ");
  write("set/a.bin", "the user's own");  // what is there is not touched again
  fetch(set, kQuiet);
  EXPECT_EQ(load_text(path("set/a.bin")), "the user's own");
}

TEST_F(Downloads, ThatFailSayWhyAndWhatToDo) {
  write("served/a.bin", content_);
  const Home set = home("a.bin", "other content", {"http://127.0.0.1:1/", server_->url() + "nothing/", server_->url()});
  const std::string message = message_of([&] { fetch(set, kQuiet); });
  for (const std::string& part :
       {std::string("set: set/a.bin is missing and could not be downloaded"), std::string("http://127.0.0.1:1/a.bin: "),
        std::string("404"), "its checksum is " + hash_of(Sha256(), content_), "put set/a.bin\n  below " + path(""),
        std::string("VARVE_DATA_MIRROR")}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nin\n" << message;
  }
  EXPECT_EQ(left_overs(), "");
  expect_error([&] { fetch(set, kOffline); }, "is missing, and downloading was not allowed");
}

TEST_F(Downloads, TakeTheUsersMirrorWhenThereIsOne) {
  write("served/mine/set/a.bin", content_);
  const Home set = home("a.bin", content_, {"http://127.0.0.1:1/"});
  const Setting mirror("VARVE_DATA_MIRROR", server_->url() + "mine");
  fetch(set, kQuiet);
  EXPECT_EQ(load_text(path("set/a.bin")), content_);
}

TEST_F(Downloads, OfArchivesAreUnpackedAndRemoved) {
  const std::string archive = gzipped(tar_bytes({{"set/x.bin", content_}, {"set/more/y.bin", "y"}}));
  write("served/a.tar.gz", archive);
  Home set = {.name = "set",
              .folder = "set",
              .mirrors = {server_->url()},
              .files = {{.path = "a.tar.gz", .hash = hash_of(Md5(), archive), .holds = {"set/x.bin", "set/more"}}}};
  fetch(set, kQuiet);
  EXPECT_EQ(load_text(path("set/x.bin")), content_);
  EXPECT_EQ(load_text(path("set/more/y.bin")), "y");
  EXPECT_FALSE(std::filesystem::exists(path("a.tar.gz")));
  // A part was lost: it comes back, and the rest stays.
  std::filesystem::remove(path("set/x.bin"));
  write("set/own.txt", "mine");
  fetch(set, kQuiet);
  EXPECT_EQ(load_text(path("set/x.bin")), content_);
  EXPECT_EQ(load_text(path("set/own.txt")), "mine");
}

TEST_F(Downloads, AreNotNeededForAnArchivePlacedByHand) {
  write("a.tar.gz", gzipped(tar_bytes({{"set/x.bin", "x"}})));
  Home set = {.name = "set", .folder = "set", .files = {{.path = "a.tar.gz", .hash = "0", .holds = {"set/x.bin"}}}};
  EXPECT_TRUE(present(set));
  fetch(set, kOffline);
  EXPECT_EQ(load_text(path("set/x.bin")), "x");
  EXPECT_TRUE(std::filesystem::exists(path("a.tar.gz")));
  set.files[0].holds = {"set/y.bin"};
  expect_error([&] { fetch(set, kOffline); }, "does not hold what it should");
}

TEST(DataRoot, IsWhereTheEnvironmentSays) {
  {
    const Setting set("VARVE_DATA", "/some/where");
    EXPECT_EQ(root(), "/some/where");
  }
  const Setting unset("VARVE_DATA", ""), cache("XDG_CACHE_HOME", ""), user("HOME", "/home/me");
  EXPECT_EQ(root(), "/home/me/.cache/varve/datasets");
}

}  // namespace
}  // namespace varve::data
