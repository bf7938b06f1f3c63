// What the example has in flash.
#ifndef FLASH_H_
#define FLASH_H_

// The file that CMakeLists.txt gives to add_board_program.
extern const unsigned char flash_0[], flash_0_end[];

// 8x8 pixels from 0, white, to 1, black.
static const float picture[64] = {
    .0000F, .0625F, .5625F, .9375F, .8125F, .2500F, .0000F, .0000F,  //
    .0000F, .3125F, .7500F, .2500F, .6250F, .3750F, .0000F, .0000F,  //
    .0000F, .0000F, .0000F, .1875F, .9375F, .1250F, .0000F, .0000F,  //
    .0000F, .0000F, .0000F, .9375F, .8125F, .0625F, .0000F, .0000F,  //
    .0000F, .0000F, .0000F, .1250F, .5625F, .8750F, .1250F, .0000F,  //
    .0000F, .0000F, .0000F, .0000F, .0000F, .6875F, .5000F, .0000F,  //
    .0000F, .0000F, .6250F, .3750F, .2500F, .6875F, .4375F, .0000F,  //
    .0000F, .0000F, .5000F, .9375F, 1.000F, .5625F, .0625F, .0000F,
};

#endif
