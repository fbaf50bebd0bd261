#include "server/api/rpc/grpc_status.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

TEST(GrpcStatusTest, EveryCodeAndTextComesBackUnchanged) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code),
                              code == 0 ? "" : "text");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status) << code;
    EXPECT_EQ(ToGrpc(status).error_code(), code);
  }
}

TEST(GrpcStatusTest, LongTextIsCutBetweenCharacters) {
  std::string text(2047, 'a');
  for (int i = 0; i < 100; ++i) text += "\xc3\xa4";
  const grpc::Status status = ToGrpc(absl::InternalError(text));
  EXPECT_EQ(status.error_message(), std::string(2047, 'a') + "...");
}

}  // namespace
}  // namespace gpupool::server
