#include "data/fetch_curl.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <memory>

#include "varve/error.h"
#include "varve/version.h"

namespace varve::data {
namespace {

struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_setopt) setopt;
  decltype(&curl_easy_perform) perform;
  decltype(&curl_easy_cleanup) cleanup;
  decltype(&curl_easy_strerror) strerror;
};

template <class Function>
void resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw Error(std::string("libcurl.so.4 has no ") + name + ": install a current libcurl.");
}

Curl load_curl() {
  void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error("downloading needs libcurl (libcurl.so.4), which is not installed.");
  Curl curl;
  resolve(library, "curl_global_init", curl.global_init);
  resolve(library, "curl_easy_init", curl.init);
  resolve(library, "curl_easy_setopt", curl.setopt);
  resolve(library, "curl_easy_perform", curl.perform);
  resolve(library, "curl_easy_cleanup", curl.cleanup);
  resolve(library, "curl_easy_strerror", curl.strerror);
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw Error("libcurl could not be started.");
  return curl;
}

struct Sink {
  std::FILE* file;
  const std::function<void(std::int64_t, std::int64_t)>& progress;
};

std::size_t write(char* data, std::size_t size, std::size_t count, void* sink) {
  return std::fwrite(data, size, count, static_cast<Sink*>(sink)->file);
}

int report(void* sink, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
  static_cast<Sink*>(sink)->progress(done, total);
  return 0;
}

}  // namespace

void transfer(const std::string& url, const std::string& path,
              const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  static const Curl curl = load_curl();
  const std::unique_ptr<CURL, decltype(curl.cleanup)> handle(curl.init(), curl.cleanup);
  if (!handle) throw Error("libcurl could not be started.");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) throw Error("\"" + path + "\" could not be written.");
  Sink sink = {file.get(), progress};
  std::array<char, CURL_ERROR_SIZE> words{};
  const auto set = [&](CURLoption option, auto value) { curl.setopt(handle.get(), option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_ERRORBUFFER, words.data());
  set(CURLOPT_WRITEFUNCTION, &write);
  set(CURLOPT_WRITEDATA, &sink);
  set(CURLOPT_XFERINFOFUNCTION, &report);
  set(CURLOPT_XFERINFODATA, &sink);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);  // other threads must not be interrupted by its timeouts
  set(CURLOPT_CONNECTTIMEOUT, 20L);
  set(CURLOPT_LOW_SPEED_LIMIT, 100L);  // bytes a second, for so many seconds: the other side is gone
  set(CURLOPT_LOW_SPEED_TIME, 60L);
  const std::string agent = std::string("varve/") + version();
  set(CURLOPT_USERAGENT, agent.c_str());
  const CURLcode code = curl.perform(handle.get());
  if (code != CURLE_OK) throw Error(words[0] != '\0' ? words.data() : curl.strerror(code));
  if (std::fclose(file.release()) != 0) throw Error("\"" + path + "\" could not be written: is the disk full?");
}

}  // namespace varve::data
