// Threads that each do a part of something, together with the thread that asks for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads.h"

namespace varve::gloo_ranks {

class Helpers {
 public:
  explicit Helpers(std::size_t count) : tasks_(count) {
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  }
  ~Helpers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    posted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  // part(0) here, part(1) … part(count) by the helpers; returns when all have ended, and throws what one of them threw.
  void run(const std::function<void(std::size_t)>& part) {
    {
      const std::lock_guard lock(mutex_);
      failed_ = nullptr;
      for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i] = [&part, i] { part(i + 1); };
    }
    posted_.notify_all();
    std::exception_ptr error = attempt([&] { part(0); });
    std::unique_lock lock(mutex_);
    for (std::function<void()>& task : tasks_) done_.wait(lock, [&] { return !task; });
    if (!error) error = failed_;
    if (error) std::rethrow_exception(error);
  }

 private:
  template <class F>
  static std::exception_ptr attempt(F f) {
    try {
      f();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void work(std::size_t i) {
    use_every_processor();
    std::unique_lock lock(mutex_);
    for (;;) {
      posted_.wait(lock, [&] { return stopping_ || tasks_[i]; });
      if (!tasks_[i]) return;
      lock.unlock();
      const std::exception_ptr error = attempt(tasks_[i]);
      lock.lock();
      tasks_[i] = nullptr;
      if (error) failed_ = error;
      done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable posted_, done_;
  std::vector<std::function<void()>> tasks_;  // of each helper; empty: none
  std::exception_ptr failed_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace varve::gloo_ranks
