#include "tls/openssl_handles.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace gpupool::tls {
namespace {

TEST(OpenSslHandlesTest, AReaderHasTheBytes) {
  const BioHandle reader = ReaderOf("abc");
  char bytes[8] = {};
  EXPECT_EQ(BIO_read(reader.get(), bytes, sizeof(bytes)), 3);
  EXPECT_STREQ(bytes, "abc");
}

TEST(OpenSslHandlesTest, AnErrorIsTakenOnce) {
  EXPECT_EQ(PEM_read_bio_X509(ReaderOf("x").get(), nullptr, nullptr, nullptr),
            nullptr);
  EXPECT_EQ(TakeOpenSslError(), "no start line");
  EXPECT_EQ(ERR_peek_error(), 0u);
  EXPECT_EQ(TakeOpenSslError(), "unknown error");
}

}  // namespace
}  // namespace gpupool::tls
