#include "daemon/jit/kernel_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/jit/cl_status.h"
#include "proto/base/logging.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

// Part of every key: raise it when the meaning of a source or of an entry
// changes without a change of its text.
constexpr char kCacheVersion[] = "tvarant kernel cache 1";

std::string BuildLog(cl_program program, cl_device_id device) {
  size_t size = 0;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr,
                            &size) != CL_SUCCESS) {
    return "";
  }
  std::string log(size, '\0');
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size,
                            log.data(), nullptr) != CL_SUCCESS) {
    return "";
  }
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

// The first line that speaks of an error, or the first line.
std::string FirstError(const std::string& log) {
  std::string first;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    if (line.find("error") != absl::string_view::npos) {
      return std::string(line.substr(0, 200));
    }
    if (first.empty()) first = std::string(line.substr(0, 200));
  }
  return first.empty() ? "the compiler gave no reason" : first;
}

// Enough of the compiler's log to mend the kernel by.
void LogBuildFailure(const std::string& name, const std::string& options,
                     const std::string& log) {
  constexpr int kMaxLines = 40;
  spdlog::error("event=kernel_build_failed name={} options={}",
                base::LogValue(name), base::LogValue(options));
  int count = 0;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    if (line.empty()) continue;
    if (++count > kMaxLines) break;
    spdlog::error("event=kernel_build_log line={}",
                  base::LogValue(std::string(line)));
  }
}

// Of an entry on disk: the name is for whoever lists the cache.
std::string StoreKey(const std::string& name, const std::string& key) {
  constexpr size_t kMaxName = 48;
  std::string text = name.substr(0, kMaxName);
  for (char& c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return absl::StrCat(text, "-", key);
}

class Stopwatch {
 public:
  uint64_t ns() const {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::steady_clock::now() - start_)
            .count());
  }

 private:
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

}  // namespace

absl::StatusOr<std::string> BinaryOf(cl_program program) {
  size_t size = 0;
  RETURN_IF_CL_ERROR(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES,
                                      sizeof(size), &size, nullptr));
  if (size == 0) return absl::NotFoundError("the program has no binary");
  std::string binary(size, '\0');
  unsigned char* data = reinterpret_cast<unsigned char*>(binary.data());
  RETURN_IF_CL_ERROR(clGetProgramInfo(program, CL_PROGRAM_BINARIES,
                                      sizeof(data), &data, nullptr));
  return binary;
}

std::shared_ptr<KernelCache::Slot> KernelCache::FindSlot(
    const std::string& key) {
  base::MutexLock lock(mutex_);
  const auto found = slots_.find(key);
  if (found != slots_.end()) {
    ages_.splice(ages_.begin(), ages_, found->second->age);
    return found->second;
  }
  while (slots_.size() >= max_programs_) {
    slots_.erase(ages_.back());
    ages_.pop_back();
  }
  auto slot = std::make_shared<Slot>();
  ages_.push_front(key);
  slot->age = ages_.begin();
  slots_.emplace(key, slot);
  return slot;
}

absl::StatusOr<std::shared_ptr<BuiltProgram>> KernelCache::Get(
    const std::string& name, const std::string& source,
    const std::string& options, const BinaryPatch* patch) {
  // Lengths keep the parts apart.
  const std::string key = Sha256Hex(absl::StrCat(
      kCacheVersion, "\n", identity_.size(), "\n", identity_, "\n",
      options.size(), "\n", options, "\n",
      patch == nullptr ? std::string() : patch->version, "\n", source));
  const std::shared_ptr<Slot> slot = FindSlot(key);
  base::MutexLock lock(slot->mutex);
  if (slot->program != nullptr) {
    hits_.fetch_add(1, std::memory_order_relaxed);
    return slot->program;
  }
  bool from_store = false;
  ASSIGN_OR_RETURN(ClHandle<cl_program> program,
                   Build(name, key, source, options, patch, &from_store));
  auto built = std::make_shared<BuiltProgram>();
  built->program_ = std::move(program);
  built->name_ = name;
  built->key_ = key;
  built->saved_ = from_store;
  slot->program = built;
  if (!from_store && store_ != nullptr) {
    base::MutexLock list_lock(mutex_);
    new_.push_back(built);
    has_new_.store(true, std::memory_order_relaxed);
  }
  return built;
}

absl::StatusOr<ClHandle<cl_program>> KernelCache::Build(
    const std::string& name, const std::string& key, const std::string& source,
    const std::string& options, const BinaryPatch* patch, bool* from_store) {
  if (store_ != nullptr) {
    if (const auto binary = store_->Load(StoreKey(name, key))) {
      auto program = FromBinary(*binary, options);
      if (program.ok()) {
        loaded_.fetch_add(1, std::memory_order_relaxed);
        *from_store = true;
        return program;
      }
      spdlog::warn("event=kernel_cache_refused name={} error={}",
                   base::LogValue(name),
                   base::LogValue(std::string(program.status().message())));
    }
  }
  const Stopwatch watch;
  auto program = FromSource(name, source, options);
  if (program.ok() && patch != nullptr) {
    ASSIGN_OR_RETURN(std::string binary, BinaryOf(program->get()));
    ASSIGN_OR_RETURN(binary, patch->apply(std::move(binary)));
    program = FromBinary(binary, options);
  }
  compile_ns_.fetch_add(watch.ns(), std::memory_order_relaxed);
  (program.ok() ? compiled_ : failed_).fetch_add(1, std::memory_order_relaxed);
  return program;
}

absl::StatusOr<ClHandle<cl_program>> KernelCache::FromBinary(
    const std::string& binary, const std::string& options) {
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  cl_int loaded = CL_SUCCESS, error = CL_SUCCESS;
  ClHandle<cl_program> program(clCreateProgramWithBinary(
      context_, 1, &device_, &size, &data, &loaded, &error));
  RETURN_IF_ERROR(ClStatus(error, "clCreateProgramWithBinary"));
  RETURN_IF_ERROR(ClStatus(loaded, "clCreateProgramWithBinary"));
  error = clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr,
                         nullptr);
  if (error != CL_SUCCESS) {
    return absl::InternalError(
        absl::StrCat(ClErrorName(error), ": ",
                     FirstError(BuildLog(program.get(), device_))));
  }
  return program;
}

absl::StatusOr<ClHandle<cl_program>> KernelCache::FromSource(
    const std::string& name, const std::string& source,
    const std::string& options) {
  const char* text = source.c_str();
  const size_t size = source.size();
  cl_int error = CL_SUCCESS;
  ClHandle<cl_program> program(
      clCreateProgramWithSource(context_, 1, &text, &size, &error));
  RETURN_IF_ERROR(ClStatus(error, "clCreateProgramWithSource"));
  error = clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr,
                         nullptr);
  if (error != CL_SUCCESS) {
    const std::string log = BuildLog(program.get(), device_);
    LogBuildFailure(name, options, log);
    return absl::InternalError(
        absl::StrCat("the OpenCL compiler refused kernel ", name, " (",
                     ClErrorName(error), "): ", FirstError(log)));
  }
  return program;
}

void KernelCache::SaveNew() {
  if (!has_new()) return;
  std::vector<std::shared_ptr<BuiltProgram>> programs;
  {
    base::MutexLock lock(mutex_);
    programs.swap(new_);
    has_new_.store(false, std::memory_order_relaxed);
  }
  for (const auto& program : programs) {
    if (program->saved_.exchange(true)) continue;
    absl::StatusOr<std::string> binary = BinaryOf(program->get());
    absl::Status status =
        binary.ok()
            ? store_->Save(StoreKey(program->name_, program->key_), *binary)
            : binary.status();
    if (!status.ok()) {
      spdlog::warn("event=kernel_cache_not_saved name={} error={}",
                   base::LogValue(program->name_),
                   base::LogValue(std::string(status.message())));
    }
  }
}

KernelCacheCounts KernelCache::counts() const {
  KernelCacheCounts counts;
  counts.compiled = compiled_.load(std::memory_order_relaxed);
  counts.loaded = loaded_.load(std::memory_order_relaxed);
  counts.hits = hits_.load(std::memory_order_relaxed);
  counts.failed = failed_.load(std::memory_order_relaxed);
  counts.compile_ns = compile_ns_.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace tvarant::opencl
