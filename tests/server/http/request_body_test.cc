#include "server/http/request_body.h"

#include <zlib.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMost = 1 << 20;
constexpr int kZlib = 15;
constexpr int kGzip = 15 + 16;

std::string Packed(const std::string& text, int format = kGzip) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

absl::StatusOr<std::string> Taken(const std::string& encoding,
                                  const std::string& body,
                                  size_t most = kMost) {
  HttpRequest request;
  request.headers = {{"Content-Encoding", encoding}};
  request.body = body;
  EXPECT_TRUE(CheckEncoding(request).ok()) << encoding;
  return TakeBody(request, most);
}

// Expects an error that says this.
void ExpectDamaged(const absl::StatusOr<std::string>& body,
                   const std::string& words) {
  EXPECT_TRUE(absl::IsInvalidArgument(body.status())) << body.status();
  EXPECT_THAT(std::string(body.status().message()), HasSubstr(words));
}

TEST(RequestBodyTest, ABodyWithoutCompressionIsTakenAsItIs) {
  HttpRequest request;
  request.body = "abc";
  EXPECT_TRUE(CheckEncoding(request).ok());
  EXPECT_EQ(*TakeBody(request, kMost), "abc");
  EXPECT_EQ(*Taken("identity", "abc"), "abc");
}

TEST(RequestBodyTest, GzipAndDeflateAreUnpackedInAnyCase) {
  const std::string text(300'000, 'x');
  for (const char* name : {"gzip", "GZIP", "x-gzip", " gzip "}) {
    EXPECT_EQ(*Taken(name, Packed(text)), text) << name;
  }
  for (const char* name : {"deflate", "Deflate"}) {
    EXPECT_EQ(*Taken(name, Packed(text, kZlib)), text) << name;
  }
  EXPECT_EQ(*Taken("gzip", Packed("")), "");
  EXPECT_EQ(*Taken("gzip", ""), "");
}

TEST(RequestBodyTest, AGzipBodyMayHaveSeveralMembers) {
  EXPECT_EQ(*Taken("gzip", Packed("abc") + Packed("") + Packed("def")),
            "abcdef");
  ExpectDamaged(Taken("gzip", Packed("abc") + "def"), "damaged");
  ExpectDamaged(Taken("deflate", Packed("abc", kZlib) + "def"),
                "followed by other bytes");
}

TEST(RequestBodyTest, ABodyThatEndsEarlyIsRefused) {
  const std::string packed = Packed("abcdefghijklmnopqrstuvwxyz");
  for (size_t bytes = 1; bytes < packed.size(); ++bytes) {
    ExpectDamaged(Taken("gzip", packed.substr(0, bytes)), "ends early");
    ExpectDamaged(Taken("gzip", packed + packed.substr(0, bytes)),
                  "ends early");
  }
}

TEST(RequestBodyTest, ADamagedBodyIsRefused) {
  ExpectDamaged(Taken("gzip", "this is no gzip at all"), "damaged");
  std::string packed = Packed(std::string(1000, 'x'));
  packed[packed.size() - 6] ^= 1;  // of the checksum
  ExpectDamaged(Taken("gzip", packed), "damaged");
}

TEST(RequestBodyTest, TheLimitIsThatOfTheUnpackedBytes) {
  const std::string text(kMost, 'x');
  EXPECT_EQ(*Taken("gzip", Packed(text)), text);
  for (const std::string& packed :
       {Packed(text + "x"), Packed(text) + Packed("x"),
        Packed(std::string(64 << 20, '\0'))}) {
    const auto body = Taken("gzip", packed);
    EXPECT_TRUE(absl::IsResourceExhausted(body.status())) << body.status();
  }
}

TEST(RequestBodyTest, OtherEncodingsAreNamed) {
  for (const char* name : {"br", "gzip, gzip", "zstd"}) {
    HttpRequest request;
    request.headers = {{"Content-Encoding", name}};
    const absl::Status checked = CheckEncoding(request);
    EXPECT_TRUE(absl::IsInvalidArgument(checked));
    EXPECT_THAT(std::string(checked.message()), HasSubstr(name));
  }
  HttpRequest twice;
  twice.headers = {{"Content-Encoding", "gzip"}, {"Content-Encoding", "gzip"}};
  EXPECT_FALSE(CheckEncoding(twice).ok());
}

}  // namespace
}  // namespace gpupool::server
