# cmake -DROOT=... -DCOMMIT=... -DOUTPUT=... -P commit.cmake
# Writes a source file with the commit of the source: COMMIT where it is given,
# else what git says of ROOT, with "-dirty" behind it where files were changed.
# Outside of a clone the commit is empty. The file is rewritten only when the
# commit changes.
set(GPUPOOL_COMMIT "${COMMIT}")
if(GPUPOOL_COMMIT STREQUAL "" AND EXISTS ${ROOT}/.git)
  execute_process(
    COMMAND git -C ${ROOT} describe --always --dirty --abbrev=12 --exclude *
    OUTPUT_VARIABLE GPUPOOL_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
configure_file(${ROOT}/cmake/commit.cc.in ${OUTPUT} @ONLY)
