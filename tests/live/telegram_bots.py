"""The same small bot written with python-telegram-bot and with aiogram, to see that both understand the test server.

A program of its own, as the two need not be where the project is: `python telegram_bots.py aiogram BASE TOKEN`.
"""

import asyncio
import io
import sys
from typing import Any

TOO_LONG = "x" * 4097
OGG, ANY = b"OggS and so on", b"\0\1\2"


async def with_python_telegram_bot(base: str, token: str) -> None:
    from telegram import InlineKeyboardButton, InlineKeyboardMarkup, InputFile, ReplyParameters, Update
    from telegram.error import BadRequest, RetryAfter
    from telegram.ext import Application, CallbackQueryHandler, MessageHandler, filters

    async def on_message(update: Any, context: Any) -> None:
        message, bot = update.effective_message, context.bot
        place = {"chat_id": message.chat_id, "message_thread_id": message.message_thread_id}
        if unknown := [*update.api_kwargs, *message.api_kwargs, *message.chat.api_kwargs]:
            await bot.send_message(**place, text=f"unknown fields: {unknown}")
        if message.forum_topic_created:
            await bot.send_message(**place, text=f"topic {message.forum_topic_created.name}")
        elif update.edited_message:
            await bot.send_message(**place, text=f"edited to {message.text}")
        elif message.photo:
            content = bytes(await (await message.photo[-1].get_file()).download_as_bytearray())
            answer = ReplyParameters(message.message_id)
            await bot.send_photo(**place, photo=content, caption=f"{len(content)} bytes", reply_parameters=answer)
            await bot.send_photo(**place, photo=message.photo[-1].file_id, caption="again")
        elif message.document:
            content = bytes(await (await message.document.get_file()).download_as_bytearray())
            await bot.send_document(**place, document=InputFile(content, filename=message.document.file_name))
        elif message.text == "/menu":
            keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
            await bot.send_message(**place, text="Sure?", reply_markup=keyboard)
        elif message.text == "/media":
            await bot.send_message_draft(**place, draft_id=7, text="recording")
            await bot.send_voice(**place, voice=OGG, duration=2)
            await bot.send_audio(**place, audio=ANY, title="Song", filename="song.mp3")
            await bot.send_video(**place, video=ANY, width=64, height=48)
        elif message.text == "/long":
            try:
                await bot.send_message(**place, text=TOO_LONG)
            except BadRequest as error:
                await bot.send_message(**place, text=f"refused: {error}")
        elif message.text == "/flood":
            try:
                await bot.send_message(**place, text="one too many")
            except RetryAfter as error:
                await bot.send_message(**place, text=f"wait: {error._retry_after.total_seconds():.0f}")
        else:
            kinds = " ".join(entity.type for entity in message.entities)
            await bot.send_chat_action(**place, action="typing")
            await bot.set_message_reaction(message.chat_id, message.message_id, "👀")
            sent = await bot.send_message(**place, text="...", reply_parameters=ReplyParameters(message.message_id))
            await sent.edit_text(f"<b>{message.text}</b> {kinds}", parse_mode="HTML")
            await message.reply_text("to be deleted", message_thread_id=message.message_thread_id)
            await bot.delete_message(message.chat_id, sent.message_id + 1)

    async def on_button(update: Any, context: Any) -> None:
        await update.callback_query.answer("noted")
        await update.callback_query.edit_message_text(f"pressed {update.callback_query.data}")

    builder = Application.builder().token(token).base_url(f"{base}/bot").base_file_url(f"{base}/file/bot")
    application = builder.build()
    application.add_handler(CallbackQueryHandler(on_button))
    application.add_handler(MessageHandler(filters.ALL, on_message))
    async with application:
        await application.bot.set_my_commands([("menu", "Shows the menu")])
        await application.start()
        await application.updater.start_polling(timeout=5, allowed_updates=Update.ALL_TYPES)
        await asyncio.Event().wait()


async def with_aiogram(base: str, token: str) -> None:
    from aiogram import Bot, Dispatcher, F
    from aiogram.client.session.aiohttp import AiohttpSession
    from aiogram.client.telegram import TelegramAPIServer
    from aiogram.exceptions import TelegramBadRequest, TelegramRetryAfter
    from aiogram.types import (
        BotCommand,
        BufferedInputFile,
        InlineKeyboardButton,
        InlineKeyboardMarkup,
        ReactionTypeEmoji,
        ReplyParameters,
    )

    bot = Bot(token, session=AiohttpSession(api=TelegramAPIServer.from_base(base)))

    async def content_of(file: Any) -> bytes:
        into = io.BytesIO()
        await bot.download(file, into)
        return into.getvalue()

    async def on_edited(message: Any) -> None:
        await bot.send_message(message.chat.id, f"edited to {message.text}")

    async def on_message(message: Any) -> None:
        place = {"chat_id": message.chat.id, "message_thread_id": message.message_thread_id}
        if unknown := [*message.model_extra, *message.chat.model_extra, *message.from_user.model_extra]:
            await bot.send_message(**place, text=f"unknown fields: {unknown}")
        answer = ReplyParameters(message_id=message.message_id)
        if message.forum_topic_created:
            await bot.send_message(**place, text=f"topic {message.forum_topic_created.name}")
        elif message.photo:
            content = await content_of(message.photo[-1])
            photo, caption = BufferedInputFile(content, "photo.png"), f"{len(content)} bytes"
            await bot.send_photo(**place, photo=photo, caption=caption, reply_parameters=answer)
            await bot.send_photo(**place, photo=message.photo[-1].file_id, caption="again")
        elif message.document:
            file = BufferedInputFile(await content_of(message.document), message.document.file_name)
            await bot.send_document(**place, document=file)
        elif message.text == "/menu":
            keyboard = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="Yes", callback_data="y")]])
            await bot.send_message(**place, text="Sure?", reply_markup=keyboard)
        elif message.text == "/media":
            await bot.send_message_draft(**place, draft_id=7, text="recording")
            await bot.send_voice(**place, voice=BufferedInputFile(OGG, "voice.ogg"), duration=2)
            await bot.send_audio(**place, audio=BufferedInputFile(ANY, "song.mp3"), title="Song")
            await bot.send_video(**place, video=BufferedInputFile(ANY, "film.mp4"), width=64, height=48)
        elif message.text == "/long":
            try:
                await bot.send_message(**place, text=TOO_LONG)
            except TelegramBadRequest as error:
                await bot.send_message(**place, text=f"refused: {error.message.removeprefix('Bad Request: ')}")
        elif message.text == "/flood":
            try:
                await bot.send_message(**place, text="one too many")
            except TelegramRetryAfter as error:
                await bot.send_message(**place, text=f"wait: {error.retry_after}")
        else:
            kinds = " ".join(entity.type for entity in message.entities or ())
            await bot.send_chat_action(**place, action="typing")
            await message.react([ReactionTypeEmoji(emoji="👀")])
            sent = await bot.send_message(**place, text="...", reply_parameters=answer)
            await sent.edit_text(f"<b>{message.text}</b> {kinds}", parse_mode="HTML")
            gone = await bot.send_message(**place, text="to be deleted")
            await gone.delete()

    async def on_button(query: Any) -> None:
        await query.answer("noted")
        await query.message.edit_text(f"pressed {query.data}")

    dispatcher = Dispatcher()
    dispatcher.message.register(on_message)
    dispatcher.edited_message.register(on_edited)
    dispatcher.callback_query.register(on_button, F.data)
    await bot.set_my_commands([BotCommand(command="menu", description="Shows the menu")])
    await dispatcher.start_polling(bot, polling_timeout=5, handle_signals=False)


if __name__ == "__main__":
    library, base, token = sys.argv[1:]
    asyncio.run({"python-telegram-bot": with_python_telegram_bot, "aiogram": with_aiogram}[library](base, token))
