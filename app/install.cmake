# What `cmake --install` and `cpack` put where. Presets and images are in the program.
#   bin/twinscale
#   lib/twinscale/twinscale_cuda.so   where it was built; the program's run path leads there
#   share/doc/twinscale/              README.md, LICENSE, SOURCES.md, and the presets as examples
# To do without the GPU, leave out twinscale_cuda.so.
include(GNUInstallDirs)
set(MODULE_DIR ${CMAKE_INSTALL_LIBDIR}/twinscale)
file(RELATIVE_PATH from_program "/${CMAKE_INSTALL_BINDIR}" "/${MODULE_DIR}")
set_target_properties(twinscale PROPERTIES INSTALL_RPATH "$ORIGIN/${from_program}")
install(TARGETS twinscale RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET twinscale_cuda)
    install(TARGETS twinscale_cuda LIBRARY DESTINATION ${MODULE_DIR})
endif()
install(FILES README.md LICENSE assets/SOURCES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES assets/tour.png DESTINATION ${CMAKE_INSTALL_DOCDIR}/assets)
install(DIRECTORY assets/presets DESTINATION ${CMAKE_INSTALL_DOCDIR}/assets)

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Trains image GANs in mixed precision")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_RESOURCE_FILE_README ${CMAKE_SOURCE_DIR}/README.md)
set(CPACK_VERBATIM_VARIABLES TRUE)
include(CPack)
