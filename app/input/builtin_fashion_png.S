/* The bytes of assets/fashion2000.png, between two symbols. CMake defines FASHION_PNG. */
    .section .rodata
    .balign 16
    .global builtin_fashion_png
    .global builtin_fashion_png_end
builtin_fashion_png:
    .incbin FASHION_PNG
builtin_fashion_png_end:
    .byte 0

    .section .note.GNU-stack, "", %progbits
