// Owners of OpenSSL's objects, and the text of its errors.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace gpupool::tls {

// Deleter that calls a function of OpenSSL.
template <auto kFree>
using FreeWith = std::integral_constant<decltype(kFree), kFree>;

using BioHandle = std::unique_ptr<BIO, FreeWith<&BIO_free_all>>;
using CertificateHandle = std::unique_ptr<X509, FreeWith<&X509_free>>;
using ExtensionHandle =
    std::unique_ptr<X509_EXTENSION, FreeWith<&X509_EXTENSION_free>>;
using KeyHandle = std::unique_ptr<EVP_PKEY, FreeWith<&EVP_PKEY_free>>;
using StoreHandle = std::unique_ptr<X509_STORE, FreeWith<&X509_STORE_free>>;

// Returns the reason of this thread's latest error, and forgets all its errors.
std::string TakeOpenSslError();

// Returns a reader of the bytes, which must outlive it. Null when no memory is
// left.
BioHandle ReaderOf(absl::string_view bytes);

}  // namespace gpupool::tls
