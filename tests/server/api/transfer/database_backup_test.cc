#include "server/api/transfer/database_backup.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "gpupool/v1/admin.grpc.pb.h"
#include "server/store/check.h"
#include "tests/server/api/api_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

using DatabaseBackupTest = ApiFixture;

TEST_F(DatabaseBackupTest, CopyOfTheWorkingServerIsSound) {
  StartJob();
  grpc::ClientContext context;
  auto reader =
      v1::AdminService::NewStub(channel_)->BackUpDatabase(&context, {});
  v1::BackUpDatabaseResponse message;
  ASSERT_TRUE(reader->Read(&message));
  const uint64_t total = message.header().total_bytes();
  std::string bytes;
  while (reader->Read(&message)) bytes += message.chunk();
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes.size(), total);
  const std::string path = directory_ / "copy.db";
  std::ofstream(path, std::ios::binary) << bytes;
  const auto report = CheckDatabase(path);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, ::testing::IsEmpty());
  EXPECT_EQ(report->rows.at("jobs"), 1);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "gpupool.db-copy"));
}

TEST_F(DatabaseBackupTest, DatabaseThatIsGoneIsSaid) {
  std::filesystem::remove(directory_ / "gpupool.db");
  grpc::ClientContext context;
  auto reader =
      v1::AdminService::NewStub(channel_)->BackUpDatabase(&context, {});
  v1::BackUpDatabaseResponse message;
  EXPECT_FALSE(reader->Read(&message));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("gpupool.db"));
}

TEST_F(DatabaseBackupTest, CheckCountsRows) {
  StartJob();
  grpc::ClientContext context;
  v1::DatabaseReport report;
  ASSERT_TRUE(v1::AdminService::NewStub(channel_)
                  ->CheckDatabase(&context, {}, &report)
                  .ok());
  EXPECT_EQ(report.problems_size(), 0);
  EXPECT_EQ(report.rows().at("jobs"), 1);
  EXPECT_EQ(report.schema_version(), store_->schema_version());
}

}  // namespace
}  // namespace gpupool::server
