#include "daemon/jit/binary_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <filesystem>
#include <fstream>

namespace tvarant {
namespace {

namespace fs = std::filesystem;

class BinaryStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string root = testing::TempDir() + "/store-XXXXXX";
    ASSERT_NE(::mkdtemp(root.data()), nullptr);
    folder_ = root + "/deep/kernels";
  }
  void TearDown() override {
    fs::remove_all(fs::path(folder_).parent_path().parent_path());
  }

  std::unique_ptr<BinaryStore> Open(uint64_t max_bytes = 1 << 20) {
    auto store = BinaryStore::Open(folder_, max_bytes);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::string FileOf(const std::string& key) {
    return folder_ + "/" + key + ".tvk";
  }

  std::string folder_;
};

TEST_F(BinaryStoreTest, KeepsFromOneStoreToTheNext) {
  const std::string binary("\0binary\xff", 8);
  ASSERT_TRUE(Open()->Save("key", binary).ok());
  EXPECT_EQ(Open()->Load("key"), binary);
  EXPECT_EQ(Open()->Load("other"), std::nullopt);
}

TEST_F(BinaryStoreTest, FolderIsTheOwnersAlone) {
  Open();
  struct stat info;
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(BinaryStore::Open(folder_, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(BinaryStoreTest, AFolderThatCantBeMadeIsAnError) {
  EXPECT_EQ(BinaryStore::Open("/proc/no/such/folder", 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  std::ofstream(testing::TempDir() + "/plain-file") << "x";
  EXPECT_EQ(
      BinaryStore::Open(testing::TempDir() + "/plain-file", 1).status().code(),
      absl::StatusCode::kFailedPrecondition);
}

// Each byte of the file matters: whatever is changed, nothing wrong comes out.
TEST_F(BinaryStoreTest, DamageIsSeen) {
  const auto store = Open();
  const std::string binary = "what the driver made";
  ASSERT_TRUE(store->Save("key", binary).ok());
  std::string whole;
  {
    std::ifstream file(FileOf("key"), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 0x20;
    std::ofstream(FileOf("key"), std::ios::binary) << damaged;
    const auto loaded = store->Load("key");
    // A digest's letter in the other case is still not the digest.
    EXPECT_EQ(loaded, std::nullopt) << "byte " << i;
    EXPECT_FALSE(fs::exists(FileOf("key"))) << "byte " << i;
  }
  for (size_t size = 0; size < whole.size(); size += 7) {
    std::ofstream(FileOf("key"), std::ios::binary) << whole.substr(0, size);
    EXPECT_EQ(store->Load("key"), std::nullopt) << "cut to " << size;
  }
  std::ofstream(FileOf("key"), std::ios::binary) << whole << "more";
  EXPECT_EQ(store->Load("key"), std::nullopt);
}

TEST_F(BinaryStoreTest, ForgetsWhatWasUsedLongAgo) {
  const auto store = Open(3000);
  const std::string binary(900, 'x');
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(store->Save(key, binary).ok());
  }
  // "a" was used last, "b" before it, "c" long ago.
  int64_t age = 0;
  for (const char* key : {"a", "b", "c"}) {
    utimbuf times{1000000 - age, 1000000 - age};
    ASSERT_EQ(::utime(FileOf(key).c_str(), &times), 0);
    age += 100;
  }
  ASSERT_TRUE(store->Save("d", binary).ok());
  std::vector<std::string> keys;
  for (const auto& entry : store->List()) keys.push_back(entry.key);
  EXPECT_THAT(keys, testing::ElementsAre("d", "a", "b"));
}

TEST_F(BinaryStoreTest, ListsAndClears) {
  const auto store = Open();
  ASSERT_TRUE(store->Save("a", "1").ok());
  ASSERT_TRUE(store->Save("b", "22").ok());
  EXPECT_EQ(store->List().size(), 2u);
  const uint64_t stored = store->List()[0].bytes + store->List()[1].bytes;
  const BinaryStore::Cleared cleared = store->Clear();
  EXPECT_EQ(cleared.entries, 2u);
  EXPECT_EQ(cleared.bytes, stored);
  EXPECT_TRUE(store->List().empty());
}

TEST_F(BinaryStoreTest, WhatAKilledWriterLeftGoesAfterAWhile) {
  Open();
  const std::string old_file = folder_ + "/.new-old";
  const std::string young_file = folder_ + "/.new-young";
  for (const auto& path : {old_file, young_file}) std::ofstream(path) << "half";
  utimbuf times{1000000, 1000000};
  ASSERT_EQ(::utime(old_file.c_str(), &times), 0);
  Open();
  EXPECT_FALSE(fs::exists(old_file));
  EXPECT_TRUE(fs::exists(young_file));
}

TEST_F(BinaryStoreTest, KeysCantLeaveTheFolder) {
  const auto store = Open();
  for (const char* key : {"", "../x", "a/b", "a.b"}) {
    EXPECT_FALSE(store->Save(key, "x").ok()) << key;
    EXPECT_EQ(store->Load(key), std::nullopt) << key;
  }
}

TEST(Sha256Test, KnownDigest) {
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace tvarant
