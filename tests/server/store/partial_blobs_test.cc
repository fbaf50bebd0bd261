#include "server/store/partial_blobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/base/sha256.h"
#include "server/store/blob_store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] = "abcdef";

class PartialBlobsTest : public ::testing::Test {
 protected:
  PartialBlobsTest() { Open(); }

  // Opens the folder, as a daemon does that starts.
  void Open() {
    options_.now = [this] { return now_; };
    auto store = BlobStore::Open(directory_ / "blobs", options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // Begins an upload of kText, or of `text`.
  absl::StatusOr<std::unique_ptr<BlobWriter>> Begin(
      uint64_t offset, const std::string& text = kText) {
    return store_->partials().Begin({.key = key_,
                                     .sha256 = engine::Sha256Hex(text),
                                     .total_bytes = text.size(),
                                     .offset = offset});
  }

  // Begins an upload and appends bytes.
  std::unique_ptr<BlobWriter> Write(uint64_t offset, const std::string& bytes) {
    auto writer = Begin(offset);
    EXPECT_TRUE(writer.ok()) << writer.status();
    if (!writer.ok() || *writer == nullptr) return nullptr;
    const absl::Status appended = (*writer)->Append(bytes);
    EXPECT_TRUE(appended.ok()) << appended;
    return *std::move(writer);
  }

  // Returns the number of bytes that are kept; 0 without an upload.
  uint64_t Kept() const {
    const auto found = store_->partials().Find(key_);
    return found.ok() ? found->bytes : 0;
  }

  bool HasBlob() const { return store_->Contains(engine::Sha256Hex(kText)); }
  std::string Path() const { return directory_ / "blobs/partial/" + key_; }

  absl::Time now_ = absl::Now();
  TempDir directory_;
  PartialOptions options_;
  std::unique_ptr<BlobStore> store_;
  std::string key_ = std::string(64, 'a');
};

TEST_F(PartialBlobsTest, KeysAreHexDigits) {
  EXPECT_TRUE(IsUploadKey(std::string(32, '0')));
  EXPECT_TRUE(IsUploadKey(std::string(64, 'f')));
  EXPECT_FALSE(IsUploadKey(std::string(31, '0')));
  EXPECT_FALSE(IsUploadKey(std::string(65, '0')));
  EXPECT_FALSE(IsUploadKey(std::string(32, 'A')));
  EXPECT_FALSE(IsUploadKey("../" + std::string(32, '0')));
}

TEST_F(PartialBlobsTest, GoesOnWhereABrokenStreamEnded) {
  Write(0, "abc").reset();
  EXPECT_EQ(Kept(), 3u);
  EXPECT_FALSE(HasBlob());
  auto writer = Write(3, "def");
  ASSERT_NE(writer, nullptr);
  EXPECT_FALSE(HasBlob());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_TRUE(HasBlob());
  EXPECT_EQ(*store_->Read(engine::Sha256Hex(kText), 100), kText);
}

TEST_F(PartialBlobsTest, GoesOnAfterARestartOfTheDaemon) {
  Write(0, "abcd").reset();
  store_.reset();
  Open();
  EXPECT_EQ(Kept(), 4u);
  auto writer = Write(4, "ef");
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(writer->Commit().ok());
  EXPECT_TRUE(HasBlob());
}

TEST_F(PartialBlobsTest, TheBytesOfATenantAreKnownAfterARestart) {
  const auto begin = [&](const std::string& key, const std::string& tenant) {
    auto writer = store_->partials().Begin({.key = key,
                                            .sha256 = engine::Sha256Hex(kText),
                                            .total_bytes = 6,
                                            .tenant = tenant});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append("ab").ok());
  };
  const std::string other = std::string(64, 'b');
  begin(key_, "a");
  begin(other, "a");
  begin(std::string(64, 'c'), "");
  store_.reset();
  Open();
  const std::map<std::string, uint64_t> both = {{"", 6}, {"a", 12}};
  EXPECT_EQ(store_->partials().BytesByTenant({}), both);
  const std::map<std::string, uint64_t> one = {{"", 6}, {"a", 6}};
  EXPECT_EQ(store_->partials().BytesByTenant({other}), one);
}

TEST_F(PartialBlobsTest, OnlySyncedBytesCountAfterARestartOfTheMachine) {
  Write(0, "abcd").reset();
  store_.reset();
  ASSERT_TRUE(
      WriteSidecar(Path() + ".info", {.sha256 = engine::Sha256Hex(kText),
                                      .total_bytes = 6,
                                      .durable_bytes = 2,
                                      .boot_id = "earlier"})
          .ok());
  Open();
  EXPECT_EQ(Kept(), 2u);
  EXPECT_EQ(std::filesystem::file_size(Path()), 2u);
}

TEST_F(PartialBlobsTest, ACompleteFileIsKeptUntilItIsForgotten) {
  auto writer = Write(0, kText);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Commit().ok());
  writer.reset();
  EXPECT_EQ(Kept(), 6u);
  // The answer got lost. The client has nothing to send.
  auto again = Begin(6);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE((*again)->Commit().ok());
  (*again)->Forget();
  again->reset();
  EXPECT_EQ(Kept(), 0u);
  EXPECT_FALSE(std::filesystem::exists(Path()));
  EXPECT_EQ(*store_->Read(engine::Sha256Hex(kText), 100), kText);
}

TEST_F(PartialBlobsTest, ABlobIsNeverCutOff) {
  auto writer = Write(0, kText);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Commit().ok());
  writer.reset();
  EXPECT_TRUE(absl::IsAborted(Begin(3).status()));
  Write(0, "xx").reset();
  EXPECT_EQ(*store_->Read(engine::Sha256Hex(kText), 100), kText);
}

TEST_F(PartialBlobsTest, ACommittedFileSurvivesARestartOfTheMachine) {
  auto writer = Write(0, kText);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Commit().ok());
  writer.reset();
  store_.reset();
  ASSERT_TRUE(
      WriteSidecar(Path() + ".info", {.sha256 = engine::Sha256Hex(kText),
                                      .total_bytes = 6,
                                      .durable_bytes = 0,
                                      .boot_id = "earlier"})
          .ok());
  Open();
  EXPECT_EQ(Kept(), 6u);
  EXPECT_EQ(*store_->Read(engine::Sha256Hex(kText), 100), kText);
}

TEST_F(PartialBlobsTest, OffsetsBeyondTheKeptBytesAreRefused) {
  EXPECT_TRUE(absl::IsAborted(Begin(1).status()));
  Write(0, "abc").reset();
  const absl::Status status = Begin(4).status();
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("offset is 4, but 3"));
  EXPECT_EQ(Kept(), 3u);
}

TEST_F(PartialBlobsTest, BytesFromTheOffsetOnAreReplaced) {
  Write(0, "abXX").reset();
  auto writer = Write(2, "cdef");
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(writer->Commit().ok());
  EXPECT_TRUE(HasBlob());
}

TEST_F(PartialBlobsTest, BytesThatAreReplacedAreNotCalledDurable) {
  Write(0, "abXX").reset();
  EXPECT_EQ(ReadSidecar(Path() + ".info")->durable_bytes, 4u);
  const auto writer = Write(2, "c");
  ASSERT_NE(writer, nullptr);
  EXPECT_EQ(ReadSidecar(Path() + ".info")->durable_bytes, 2u);
}

TEST_F(PartialBlobsTest, WrongKeptBytesAreDeletedAndTheUploadBeginsAnew) {
  Write(0, "YYY").reset();
  auto writer = Write(3, "def");
  ASSERT_NE(writer, nullptr);
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("from offset 0"));
  writer.reset();
  EXPECT_EQ(Kept(), 0u);
  EXPECT_FALSE(HasBlob());
}

TEST_F(PartialBlobsTest, WrongBytesOfOneStreamAreRefused) {
  auto writer = Write(0, "abcdeX");
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Commit()));
  writer.reset();
  EXPECT_EQ(Kept(), 0u);
}

TEST_F(PartialBlobsTest, MissingBytesAreRefusedAndTheRestIsKept) {
  auto writer = Write(0, "abc");
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Commit()));
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Append("def")))
      << "after an error the writer refuses everything";
  writer.reset();
  EXPECT_EQ(Kept(), 3u);
}

TEST_F(PartialBlobsTest, SurplusBytesAreRefused) {
  auto writer = Write(0, "abc");
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Append("defg")));
}

TEST_F(PartialBlobsTest, AnotherFileMayNotGoOnUnderTheKeyButReplaceIt) {
  Write(0, "abc").reset();
  const absl::Status status = Begin(3, "abcxyz").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(Kept(), 3u);
  auto replaced = Begin(0, "abcxyz");
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  ASSERT_TRUE((*replaced)->Append("abcxyz").ok());
  ASSERT_TRUE((*replaced)->Commit().ok());
  EXPECT_TRUE(store_->Contains(engine::Sha256Hex("abcxyz")));
}

TEST_F(PartialBlobsTest, ASecondStreamIsStoredBesideTheFirst) {
  auto first = Write(0, "abc");
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(absl::IsAborted(Begin(3).status()));
  const auto none = Begin(0);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(*none, nullptr);
  auto second = store_->Begin({.key = key_,
                               .sha256 = engine::Sha256Hex(kText),
                               .total_bytes = 6,
                               .offset = 0});
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE((*second)->Append(kText).ok());
  ASSERT_TRUE((*second)->Commit().ok());
  EXPECT_TRUE(HasBlob());
  ASSERT_TRUE(first->Append("def").ok());
  EXPECT_TRUE(first->Commit().ok());
  EXPECT_EQ(*store_->Read(engine::Sha256Hex(kText), 100), kText);
}

TEST_F(PartialBlobsTest, ASilentStreamLosesTheUpload) {
  auto first = Write(0, "abc");
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(store_->partials().Find(key_)->in_use);
  now_ += absl::Seconds(10);
  EXPECT_FALSE(store_->partials().Find(key_)->in_use);
  auto second = Write(3, "d");
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(absl::IsAborted(first->Append("X")));
  first.reset();
  EXPECT_EQ(Kept(), 4u);
  ASSERT_TRUE(second->Append("ef").ok());
  EXPECT_TRUE(second->Commit().ok());
}

TEST_F(PartialBlobsTest, HowLongAStreamMayBeSilentIsAnOption) {
  options_.silence = absl::Minutes(1);
  store_.reset();
  Open();
  auto first = Write(0, "abc");
  ASSERT_NE(first, nullptr);
  now_ += absl::Seconds(59);
  EXPECT_TRUE(store_->partials().Find(key_)->in_use);
  now_ += absl::Seconds(1);
  EXPECT_FALSE(store_->partials().Find(key_)->in_use);
}

TEST_F(PartialBlobsTest, AStreamThatHasCommittedKeepsTheUpload) {
  auto writer = Write(0, kText);
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(writer->Commit().ok());
  now_ += absl::Hours(1);
  EXPECT_TRUE(store_->partials().Find(key_)->in_use);
  EXPECT_TRUE(absl::IsAborted(Begin(6).status()));
}

TEST_F(PartialBlobsTest, ExpiredUploadsAreSweptAndOpenOnesAreNot) {
  Write(0, "abc").reset();
  EXPECT_EQ(store_->partials().Find(key_)->expires, now_ + absl::Hours(24));
  now_ += absl::Hours(23);
  EXPECT_EQ(store_->partials().Sweep(now_).removed_files, 0u);
  auto writer = Write(3, "d");
  now_ += absl::Hours(25);
  EXPECT_EQ(store_->partials().Sweep(now_).removed_files, 0u);
  writer.reset();
  now_ += absl::Hours(25);
  const SweepResult result = store_->partials().Sweep(now_);
  EXPECT_EQ(result.removed_files, 1u);
  EXPECT_EQ(result.removed_bytes, 4u);
  EXPECT_FALSE(std::filesystem::exists(Path()));
  EXPECT_FALSE(std::filesystem::exists(Path() + ".info"));
}

TEST_F(PartialBlobsTest, ExpiredUploadsAreSweptAtTheStart) {
  Write(0, "abc").reset();
  store_.reset();
  now_ += absl::Hours(25);
  Open();
  EXPECT_EQ(Kept(), 0u);
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

TEST_F(PartialBlobsTest, DamagedFilesAreDeletedAtTheStart) {
  Write(0, "abc").reset();
  store_.reset();
  std::ofstream(Path() + ".info", std::ios::trunc) << "nonsense\n";
  const std::string folder = directory_ / "blobs/partial/";
  std::ofstream(folder + std::string(32, 'b')) << "bytes without a sidecar";
  std::ofstream(folder + std::string(32, 'c') + ".info") << "no file";
  std::ofstream(folder + "notes.txt") << "of somebody else";
  Open();
  EXPECT_EQ(Kept(), 0u);
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory_ / "blobs/partial")) {
    EXPECT_EQ(entry.path().filename(), "notes.txt");
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(PartialBlobsTest, OldUploadsMakeRoomForNewOnes) {
  options_.most_files = 2;
  store_.reset();
  Open();
  Write(0, "abc").reset();
  now_ += absl::Seconds(1);
  const std::string oldest = key_;
  key_ = std::string(64, 'b');
  Write(0, "abc").reset();
  key_ = std::string(64, 'c');
  Write(0, "abc").reset();
  EXPECT_EQ(Kept(), 3u);
  EXPECT_FALSE(store_->partials().Find(oldest).ok());
  EXPECT_TRUE(store_->partials().Find(std::string(64, 'b')).ok());
}

TEST_F(PartialBlobsTest, OpenUploadsAreBoundedInNumberAndBytes) {
  options_.most_files = 1;
  store_.reset();
  Open();
  auto first = Write(0, "abc");
  key_ = std::string(64, 'b');
  const absl::Status files = Begin(0).status();
  EXPECT_TRUE(absl::IsResourceExhausted(files)) << files;
  EXPECT_THAT(std::string(files.message()), HasSubstr("at most 1"));
  EXPECT_THAT(std::string(files.message()), HasSubstr("--upload-files"));
  first.reset();
  options_.most_files = 10;
  options_.most_bytes = 11;
  store_.reset();
  Open();
  first = Write(0, "abc");
  key_ = std::string(64, 'c');
  const absl::Status bytes = Begin(0).status();
  EXPECT_TRUE(absl::IsResourceExhausted(bytes)) << bytes;
  EXPECT_THAT(std::string(bytes.message()), HasSubstr("may have 11"));
  EXPECT_THAT(std::string(bytes.message()), HasSubstr("--upload-bytes"));
}

TEST_F(PartialBlobsTest, NothingIsKeptIfThatIsTurnedOff) {
  options_.keep = absl::ZeroDuration();
  store_.reset();
  Open();
  const auto none = Begin(0);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(*none, nullptr);
  EXPECT_TRUE(absl::IsAborted(Begin(1).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->partials().Find(key_).status()));
}

TEST_F(PartialBlobsTest, TheOldestIsDroppedForRoomOnTheDisk) {
  Write(0, "abc").reset();
  const std::string oldest = key_;
  now_ += absl::Seconds(1);
  key_ = std::string(64, 'b');
  Write(0, "ab").reset();
  EXPECT_EQ(store_->partials().IdleBytes({}), 5u);
  EXPECT_EQ(store_->partials().IdleBytes({oldest}), 2u);
  EXPECT_TRUE(store_->partials().DropOldest({}));
  EXPECT_FALSE(store_->partials().Find(oldest).ok());
  EXPECT_FALSE(store_->partials().DropOldest({key_}));
  EXPECT_EQ(Kept(), 2u);
}

TEST_F(PartialBlobsTest, HashesMoreKeptBytesThanOneCallReads) {
  const std::string text(20 << 20, 'x');
  {
    auto writer = Begin(0, text);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append(text.substr(0, 19 << 20)).ok());
  }
  auto writer = Begin(19 << 20, text);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(text.substr(19 << 20)).ok());
  EXPECT_TRUE((*writer)->Commit().ok());
  EXPECT_TRUE(store_->Contains(engine::Sha256Hex(text)));
}

}  // namespace
}  // namespace gpupool::server
