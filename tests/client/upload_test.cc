#include "client/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>

#include "client/client.h"
#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

class UploadTest : public ::testing::Test {
 protected:
  UploadTest() {
    client_ = *Client::Create({.address = server_.address()});
    upload_.name = "letters";
    upload_.file = WriteFile("a.csv", "abc");
  }

  std::string WriteFile(const std::string& name, const std::string& bytes) {
    // Tests run in parallel, so each has its own file.
    const std::string folder =
        ::testing::TempDir() + "/client_" + std::to_string(::getpid());
    ::mkdir(folder.c_str(), 0700);
    const std::string path = folder + "/upload_test_" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  DatasetUpload upload_;
};

TEST_F(UploadTest, DescribesSizeAndDigest) {
  const auto files = DescribeFiles(upload_);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 1u);
  EXPECT_EQ(files->at(0).role(), v1::DatasetFile::TABLE);
  EXPECT_EQ(files->at(0).file_name(), "upload_test_a.csv");
  EXPECT_EQ(files->at(0).total_bytes(), 3u);
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(files->at(0).sha256(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(UploadTest, SendsBothFilesInChunksOfAtMostOneMebibyte) {
  const std::string features((5 << 20) / 2, 'f');
  upload_.file = WriteFile("features.idx3", features);
  upload_.labels_file = WriteFile("labels.idx1", "labels");
  uint64_t sent = 0, total = 0;
  const auto dataset =
      UploadDataset(*client_, upload_, [&](uint64_t s, uint64_t t) {
        sent = s;
        total = t;
      });
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->files(0).role(), v1::DatasetFile::FEATURES);
  EXPECT_EQ(dataset->files(1).role(), v1::DatasetFile::LABELS);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.uploaded_bytes, features + "labels");
  EXPECT_EQ(server_.state.largest_chunk, 1u << 20);
  EXPECT_EQ(sent, features.size() + 6);
  EXPECT_EQ(total, sent);
}

TEST_F(UploadTest, SendsAFolderOfImagesAsAnArchive) {
  const std::string folder =
      ::testing::TempDir() + "/client_" + std::to_string(::getpid()) + "/pets";
  std::filesystem::create_directories(folder + "/cat");
  std::ofstream(folder + "/cat/1.jpg") << "12345";
  upload_.file = folder + "/";
  const auto dataset = UploadDataset(*client_, upload_, nullptr);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->files(0).file_name(), "pets.tar");
  // A header, a block and the end of the archive.
  EXPECT_EQ(dataset->files(0).total_bytes(), 2048u);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.uploaded_bytes.size(), 2048u);
  EXPECT_EQ(server_.state.uploaded_bytes.substr(512, 5), "12345");
}

TEST_F(UploadTest, AFolderOfRecordingsHasTheirFormat) {
  const std::string folder = ::testing::TempDir() + "/client_audio_" +
                             std::to_string(::getpid()) + "/tones";
  std::filesystem::create_directories(folder + "/low");
  std::ofstream(folder + "/low/1.wav") << "12345";
  upload_.file = folder;
  upload_.more_files = {folder};
  const auto dataset = UploadDataset(*client_, upload_, nullptr);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->layout().format(), v1::AUDIO);
  EXPECT_EQ(dataset->files(0).file_name(), "tones.tar");
  EXPECT_EQ(dataset->files(1).role(), v1::DatasetFile::AUDIO);
}

TEST_F(UploadTest, SendsSeveralArchivesInTheirOrder) {
  upload_.file = WriteFile("0.tar", "first");
  upload_.more_files = {WriteFile("1.tar", "second"),
                        WriteFile("2.tar", "third")};
  const auto dataset = UploadDataset(*client_, upload_, nullptr);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->files_size(), 3);
  EXPECT_EQ(dataset->files(2).role(), v1::DatasetFile::IMAGES);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.uploaded_bytes, "firstsecondthird");
}

TEST_F(UploadTest, SendsTextsAndThenTheirTokenizer) {
  upload_.file = WriteFile("0.TXT", "first");
  upload_.more_files = {WriteFile("1.txt", "second")};
  upload_.tokenizer_file = WriteFile("a.model", "third");
  const auto dataset = UploadDataset(*client_, upload_, nullptr);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->files_size(), 3);
  EXPECT_EQ(dataset->files(1).role(), v1::DatasetFile::TABLE);
  EXPECT_EQ(dataset->files(2).role(), v1::DatasetFile::TOKENIZER);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.uploaded_bytes, "firstsecondthird");
}

TEST_F(UploadTest, RepeatsTheWholeUploadWhileUnavailable) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["UploadDataset"] = {
        absl::UnavailableError("starting")};
  }
  ASSERT_TRUE(UploadDataset(*client_, upload_, nullptr).ok());
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.uploaded_bytes, "abc");
  EXPECT_EQ(server_.state.calls["UploadDataset"], 2);
}

TEST_F(UploadTest, GoesOnWhereTheBytesOfTheServerEnd) {
  std::string bytes(9 << 20, 'a');
  bytes.back() = 'z';
  upload_.file = WriteFile("large.csv", bytes);
  std::vector<std::string> notices;
  client_ = *Client::Create(
      {.address = server_.address(),
       .upload_notice = [&](const auto& line) { notices.push_back(line); }});
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.upload_breaks_at = 5 << 20;
  }
  uint64_t sent = 0;
  const auto dataset =
      UploadDataset(*client_, upload_, [&](uint64_t s, uint64_t) { sent = s; });
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(sent, bytes.size());
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.uploaded_bytes, bytes);
  EXPECT_EQ(server_.state.calls["UploadDataset"], 2);
  EXPECT_EQ(server_.state.upload_header.parts(0).offset(), 5u << 20);
  ASSERT_EQ(notices.size(), 2u);
  EXPECT_THAT(notices[0], ::testing::HasSubstr("the upload broke"));
  EXPECT_EQ(notices[1], "upload_test_large.csv: resumed at 5.0 MiB of 9.0 MiB");
}

TEST_F(UploadTest, AFolderOfImagesGoesOnInTheMiddleOfItsArchive) {
  const std::string folder =
      ::testing::TempDir() + "/client_" + std::to_string(::getpid()) + "/many";
  std::filesystem::create_directories(folder + "/cat");
  std::ofstream(folder + "/cat/1.jpg") << std::string(6 << 20, 'c');
  upload_.file = folder;
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.upload_breaks_at = (5 << 20) + 1;
  }
  const auto dataset = UploadDataset(*client_, upload_, nullptr);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  absl::MutexLock lock(&server_.state.mutex);
  // A header and the end of the archive are around the image.
  EXPECT_EQ(server_.state.uploaded_bytes.size(), (6u << 20) + 1536);
  EXPECT_EQ(server_.state.uploaded_bytes.substr(512, 6 << 20),
            std::string(6 << 20, 'c'));
  EXPECT_GT(server_.state.upload_header.parts(0).offset(), 5u << 20);
}

// The server accepts the connection and takes nothing, so that the write does
// not end by itself.
TEST_F(UploadTest, AStopEndsAWriteThatWaits) {
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(silent, 1), 0);
  ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size),
            0);
  std::stop_source stop;
  client_ = *Client::Create(
      {.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port)),
       .upload_stop = stop.get_token()});
  int accepted = -1;
  std::thread server([&] {
    accepted = ::accept(silent, nullptr, nullptr);
    stop.request_stop();
  });
  const absl::Status status =
      UploadDataset(*client_, upload_, nullptr).status();
  ::shutdown(silent, SHUT_RDWR);  // ends an accept that nobody came to
  server.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("the same command goes on"));
  ::close(accepted);
  ::close(silent);
}

TEST_F(UploadTest, ReportsTheServersRefusal) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["UploadDataset"] = {
        absl::InvalidArgumentError("line 3, column 2: 'x' is not a number")};
  }
  const absl::Status status =
      UploadDataset(*client_, upload_, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "line 3, column 2: 'x' is not a number");
}

TEST_F(UploadTest, RefusesMissingAndEmptyFiles) {
  upload_.file = WriteFile("empty.csv", "");
  EXPECT_EQ(UploadDataset(*client_, upload_, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  upload_.file = "/no/such.csv";
  EXPECT_EQ(UploadDataset(*client_, upload_, nullptr).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(UploadTest, NamesThatAreNotUtf8AreRefusedBeforeTheyAreSent) {
  const std::string good = upload_.file;
  upload_.file = WriteFile("b\xFF.csv", "abc");
  const absl::Status file = UploadDataset(*client_, upload_, nullptr).status();
  EXPECT_TRUE(absl::IsInvalidArgument(file)) << file;
  EXPECT_EQ(file.message(),
            "files.file_name is 'upload_test_b\\xff.csv', which is not UTF-8; "
            "write it in UTF-8");
  upload_.file = good;
  upload_.name = "\xFF";
  for (const absl::Status& name :
       {UploadDataset(*client_, upload_, nullptr).status(),
        EnsureDataset(*client_, upload_, nullptr).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(name)) << name;
    EXPECT_EQ(name.message(),
              "name is '\\xff', which is not UTF-8; write it in UTF-8");
  }
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_FALSE(server_.state.upload_header.has_layout()) << "nothing was sent";
}

TEST_F(UploadTest, RefusesAFolderWithoutImages) {
  const std::string file = WriteFile("notes.txt", "none");
  const std::string folder = file.substr(0, file.rfind('/'));
  const absl::Status status =
      DescribeFiles({.name = "digits", .file = folder}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("holds no images"));
}

TEST_F(UploadTest, EnsureUploadsOnceAndThenNoMore) {
  auto first = EnsureDataset(*client_, upload_, nullptr);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->uploaded);
  auto second = EnsureDataset(*client_, upload_, nullptr);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->uploaded);
}

TEST_F(UploadTest, EnsureRefusesOtherContentUnderTheName) {
  ASSERT_TRUE(EnsureDataset(*client_, upload_, nullptr).ok());
  upload_.file = WriteFile("b.csv", "abd");
  const absl::Status status =
      EnsureDataset(*client_, upload_, nullptr).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_THAT(status.message(),
              ::testing::HasSubstr("gpupool datasets delete letters"));
}

TEST_F(UploadTest, EnsureRefusesAnotherFormatOfTheSameFile) {
  upload_.layout.set_format(v1::TEXT);
  ASSERT_TRUE(EnsureDataset(*client_, upload_, nullptr).ok());
  upload_.layout.set_format(v1::CSV);
  EXPECT_TRUE(absl::IsAlreadyExists(
      EnsureDataset(*client_, upload_, nullptr).status()));
  upload_.layout.set_format(v1::DATASET_FORMAT_UNSPECIFIED);
  EXPECT_TRUE(EnsureDataset(*client_, upload_, nullptr).ok());
}

TEST_F(UploadTest, EnsureRefusesOtherOptionsOfTheSameFile) {
  ASSERT_TRUE(EnsureDataset(*client_, upload_, nullptr).ok());
  upload_.layout.set_label_column(-1);
  EXPECT_TRUE(EnsureDataset(*client_, upload_, nullptr).ok())
      << "the default column, said aloud";
  upload_.layout.clear_label_column();
  upload_.layout.add_label_columns(0);
  const absl::Status status =
      EnsureDataset(*client_, upload_, nullptr).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("other options"));
  upload_.layout.clear_label_columns();
  (*upload_.layout.mutable_input_arrays())["ids"] = "x";
  EXPECT_TRUE(absl::IsAlreadyExists(
      EnsureDataset(*client_, upload_, nullptr).status()));
}

}  // namespace
}  // namespace gpupool::client
